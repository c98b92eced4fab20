//! How a session gets from its first byte to an open connection and its channels, and what the connection itself is asked for.

use std::sync::Arc;

use base::session::CloseReason;
use broker::{Connected, ModelError, Shown};
use wire::amqp::argument::ShortString;
use wire::amqp::frame::{self, PROTOCOL_HEADER, PROTOCOL_HEADER_OF_0_9};
use wire::amqp::method::Method;
use wire::amqp::method::connection::{ChannelOpenOk, ConnectionCloseOk, OpenOk, Tune, TuneOk, UpdateSecretOk};

use super::channel::Channel;
use super::error::{Fault, code};
use super::handshake::{self, ClientCapabilities};
use super::link::Login;
use super::options::AmqpOptions;
use super::session::{AmqpSession, Phase};

impl AmqpSession {
    /// Takes the eight bytes that say which protocol it is. `Ok(false)`: they are not all there.
    pub(super) fn take_header(&mut self, input: &[u8]) -> Result<bool, CloseReason> {
        let is_begin = |header: &[u8]| header.starts_with(input.get(..header.len()).unwrap_or(input));
        if !is_begin(&PROTOCOL_HEADER) && !is_begin(&PROTOCOL_HEADER_OF_0_9) {
            self.link().send_raw(&PROTOCOL_HEADER);
            self.phase = Phase::Over;
            return Err(CloseReason(format!(
                "not a header of AMQP 0-9-1: {}",
                input.get(..PROTOCOL_HEADER.len()).unwrap_or(input).escape_ascii()
            )));
        }
        if input.len() < PROTOCOL_HEADER.len() {
            return Ok(false);
        }
        self.phase = Phase::Start;
        let link = self.link();
        let (options, has_certificate) = (link.options.clone(), link.subject.is_some());
        handshake::start(&options, has_certificate, |start| link.send(0, start));
        Ok(true)
    }

    pub(super) fn take_of_connection(&mut self, method: &Method<'_>) -> Result<(), Fault> {
        match (self.phase.clone(), method) {
            (_, Method::ConnectionClose(_)) => {
                self.close_channels();
                self.link().send(0, ConnectionCloseOk {});
                self.await_end();
            }
            (Phase::Start, Method::StartOk(start)) => {
                let link = self.link();
                let capabilities = ClientCapabilities::of(&start.client_properties);
                link.hears_of_cancelled = capabilities.consumer_cancel_notify;
                link.hears_of_blocked = capabilities.connection_blocked;
                link.client = Arc::new(handshake::said_by_client(&start.client_properties));
                match handshake::authenticate(start, link) {
                    Ok(user) => {
                        let AmqpOptions { channel_max, frame_max, heartbeat_s: heartbeat, .. } = *link.options;
                        link.send(0, Tune { channel_max, frame_max, heartbeat });
                        self.phase = Phase::Tune { user: user.into() };
                    }
                    Err(fault) if capabilities.authentication_failure_close => return Err(fault),
                    Err(fault) => {
                        self.reason = Some(CloseReason(fault.reply_text()));
                        self.phase = Phase::Over;
                    }
                }
            }
            (Phase::Tune { user }, Method::TuneOk(tune)) => {
                self.agree(tune)?;
                self.phase = Phase::Open { user };
            }
            (Phase::Open { user }, Method::Open(open)) => self.open(user, open.virtual_host)?,
            (Phase::Running, Method::UpdateSecret(update)) => {
                let link = self.link();
                let user = link.login()?.user.clone();
                if !link.broker.model.access.is_password(&user, update.new_secret) {
                    return Err(Fault::not_allowed("New secret was refused by one of the backends"));
                }
                link.send(0, UpdateSecretOk {});
            }
            _ => {
                let text = format!("unexpected method {} in this state of the connection", method.name());
                return Err(Fault::new(code::CHANNEL_ERROR, text));
            }
        }
        Ok(())
    }

    /// Agrees on limits: a client may ask for less.
    fn agree(&mut self, tune: &TuneOk) -> Result<(), Fault> {
        let options = self.link().options.clone();
        if tune.frame_max != 0 && (tune.frame_max as usize) < frame::SIZE_MIN {
            let text = format!(
                "negotiated frame_max = {} is lower than the minimum allowed value ({})",
                tune.frame_max,
                frame::SIZE_MIN
            );
            return Err(Fault::not_allowed(text));
        }
        for (name, asked, most) in [
            ("frame_max", u64::from(tune.frame_max), u64::from(options.frame_max)),
            ("channel_max", u64::from(tune.channel_max), u64::from(options.channel_max)),
        ] {
            if asked > most {
                let text = format!("negotiated {name} = {asked} is higher than the maximum allowed value ({most})");
                return Err(Fault::not_allowed(text));
            }
        }
        self.link().frame_max = if tune.frame_max == 0 { options.frame_max } else { tune.frame_max } as usize;
        self.channel_max = if tune.channel_max == 0 { options.channel_max } else { tune.channel_max };
        self.heartbeat_ms = u64::from(tune.heartbeat) * 1000;
        self.beat = self.core.link.now.monotonic.plus_ms(self.heartbeat_ms / 2);
        Ok(())
    }

    fn open(&mut self, user: Arc<str>, name: ShortString<'_>) -> Result<(), Fault> {
        let broker = self.core.link.broker.clone();
        let found = name.text().ok_or_else(|| ModelError::NoSuchHost(Shown(name.bytes()).to_string()));
        let host = found.and_then(|name| broker.model.host(name))?;
        let link = self.link();
        let connected = Connected {
            address: link.address,
            client: link.client.clone(),
            since: link.now.wall,
            host: host.name().clone(),
            user: user.clone(),
            mailbox: link.mailbox.clone(),
        };
        broker.model.connections.add(link.number, connected, host.limits(), broker.model.access.limits(&user))?;
        // After this: whoever removes the user or the virtual host from here on tells the connection.
        let login = Login::new(user, host, &broker);
        if !login.is_allowed() {
            let (host, user) = (login.host.name(), &login.user);
            return Err(Fault::not_allowed(format!("access to vhost '{host}' refused for user '{user}'")));
        }
        let link = self.link();
        link.login = Some(login);
        link.send(0, OpenOk::default());
        (self.phase, self.patience) = (Phase::Running, None);
        Ok(())
    }

    pub(super) fn open_channel(&mut self, number: u16) -> Result<(), Fault> {
        if number > self.channel_max {
            let text = format!("channel {number} is above the negotiated channel_max ({})", self.channel_max);
            return Err(Fault::not_allowed(text));
        }
        self.last_serial += 1;
        let counted = self.link().open_channel()?;
        let owner = self.core.link.broker.model.number_channel();
        self.channels.insert(number, Channel::new(number, self.last_serial, owner, counted));
        self.link().send(number, ChannelOpenOk::default());
        Ok(())
    }
}
