//! What each request to the name server means.
//!
//! A handler reads its header and body first and takes the lock last. Refusals are answered with RocketMQ's code for
//! their kind; the remark names what is wrong and the remedy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::cursor::preview;
use base::{Now, Refusal};
use bytes::Bytes;
use wire::rocketmq::body::kv_table::encode_table;
use wire::rocketmq::body::route::{TopicRouteData, route_dialect};
use wire::rocketmq::body::topic_list::TopicList;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, HeaderError, TypedHeader};
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{
    AddWritePermissionResponse, BrokerHeartbeatRequest, BrokerIdentityRequest, BrokerNameRequest, ClusterRequest,
    KvKeyRequest, KvValueResponse, MemberGroupRequest, NamespaceRequest, PutKvRequest, QueryDataVersionResponse,
    RegisterBrokerRequest, RegisterBrokerResponse, RouteRequest, TopicRequest, WipeWritePermissionResponse,
};
use wire::rocketmq::registration::{Registration, RegistrationError, decode_data_version, encode_data_version};

use super::NameServer;
use super::admission::leave_out_unusable_topics;
use super::broker::{Arrival, BrokerIdentity, BrokerTraits, ConnectionId};
use super::changes::Changing;
use super::key_values::ORDER_TOPIC_NAMESPACE;
use super::routes::{UnitFilter, keep_zone};

/// Extension field of a request: the sender's zone.
const ZONE_NAME: &str = "__ZONE_NAME";
/// Extension field of a route request: whether only brokers of that zone are wanted.
const ZONE_MODE: &str = "__ZONE_MODE";

/// Writes the extension fields of an answer.
type Fields = Box<dyn FnOnce(&mut FieldSink<'_>)>;

/// A request that was carried out.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) fields: Option<Fields>,
    pub(super) body: Bytes,
    /// Given only when the key-value table is on the disk as it is now.
    pub(super) once_kept: bool,
}

impl Answer {
    fn of(header: impl TypedHeader<'static> + 'static, body: Bytes) -> Self {
        Self { fields: Some(Box::new(move |sink| header.encode(sink))), body, once_kept: false }
    }
}

/// A request that was not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) code: i32,
    pub(super) remark: String,
}

impl From<HeaderError> for Rejection {
    fn from(error: HeaderError) -> Self {
        Self { code: response::SYSTEM_ERROR, remark: error.to_string() }
    }
}

impl From<base::cursor::DecodeError> for Rejection {
    fn from(error: base::cursor::DecodeError) -> Self {
        Self { code: response::SYSTEM_ERROR, remark: format!("the body cannot be read: {error}") }
    }
}

impl From<RegistrationError> for Rejection {
    fn from(error: RegistrationError) -> Self {
        Self { code: response::SYSTEM_ERROR, remark: error.to_string() }
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::NotFound(_) => response::QUERY_NOT_FOUND,
            Refusal::NoSuchTopic(_) => response::TOPIC_NOT_EXIST,
            Refusal::NotPermitted(_) => response::NO_PERMISSION,
            Refusal::NotSupported(_) => response::REQUEST_CODE_NOT_SUPPORTED,
            _ => response::SYSTEM_ERROR,
        };
        Self { code, remark: refusal.to_string() }
    }
}

pub(super) type Outcome = Result<Answer, Rejection>;

impl From<Bytes> for Answer {
    fn from(body: Bytes) -> Self {
        Self { body, ..Self::default() }
    }
}

/// One request, with all it may touch.
pub(super) struct Asked<'a> {
    pub(super) server: &'a NameServer,
    pub(super) connection: ConnectionId,
    pub(super) command: &'a Command<'a>,
    pub(super) now: Now,
    pub(super) changing: Option<Changing<'a>>,
}

impl Asked<'_> {
    fn zone(&self) -> Option<String> {
        let zone = self.command.fields.get(ZONE_NAME)?;
        (!zone.trim().is_empty()).then(|| zone.into_owned())
    }

    pub(super) fn put_key_value(&self) -> Outcome {
        let asked = PutKvRequest::decode(&self.command.fields)?;
        self.server.state.write().key_values.put(&asked.namespace, &asked.key, &asked.value)?;
        Ok(Answer { once_kept: true, ..Answer::default() })
    }

    pub(super) fn get_key_value(&self) -> Outcome {
        let asked = KvKeyRequest::decode(&self.command.fields)?;
        let state = self.server.state.read();
        let Some(value) = state.key_values.get(&asked.namespace, &asked.key) else {
            let (namespace, key) = (preview(asked.namespace.as_bytes()), preview(asked.key.as_bytes()));
            return Err(Refusal::NotFound(format!("No config item, Namespace: {namespace} Key: {key}")).into());
        };
        let header = KvValueResponse { value: Some(value.to_owned().into()), ..KvValueResponse::default() };
        Ok(Answer::of(header, Bytes::new()))
    }

    pub(super) fn delete_key_value(&self) -> Outcome {
        let asked = KvKeyRequest::decode(&self.command.fields)?;
        self.server.state.write().key_values.delete(&asked.namespace, &asked.key);
        Ok(Answer { once_kept: true, ..Answer::default() })
    }

    pub(super) fn list_key_values(&self) -> Outcome {
        let asked = NamespaceRequest::decode(&self.command.fields)?;
        let state = self.server.state.read();
        let Some(table) = state.key_values.list(&asked.namespace) else {
            let namespace = preview(asked.namespace.as_bytes());
            return Err(Refusal::NotFound(format!("No config item, Namespace: {namespace}")).into());
        };
        Ok(encode_table(table).into())
    }

    pub(super) fn register_broker(self) -> Outcome {
        let asked = RegisterBrokerRequest::decode(&self.command.fields)?;
        let is_packed = asked.compressed == Some(true);
        let version = self.command.header.version;
        let mut what = Registration::decode(self.command.body, is_packed, version, asked.body_crc32)?;
        leave_out_unusable_topics(&mut what);
        let zone = self.zone();
        let who = BrokerIdentity {
            cluster: &asked.cluster_name,
            name: &asked.broker_name,
            id: asked.broker_id,
            address: &asked.broker_address,
        };
        let traits = BrokerTraits {
            ha_address: &asked.ha_server_address,
            zone: zone.as_deref(),
            heartbeat_timeout_ms: asked.heartbeat_timeout_ms,
            enable_acting_master: asked.enable_acting_master,
        };
        let options = self.server.state.read().options.clone();
        let arrival = Arrival {
            connection: self.connection,
            now: self.now,
            timeout_ms: options.broker_timeout_ms,
            removes_missing_topics: options.delete_topic_with_broker_registration,
        };
        let changing = self.changing.unwrap_or_else(|| self.server.change());
        let registered = self.server.register(&changing, &who, &traits, &what, &arrival)?;
        let mut state = self.server.state.write();
        state.notify(registered.lowest_id_change.as_ref());
        state.odd.note(&who, what.odd);
        let orders = state.key_values.list(ORDER_TOPIC_NAMESPACE);
        let orders = orders.filter(|_| state.options.return_order_topic_config_to_broker);
        let header = RegisterBrokerResponse {
            ha_server_address: registered.ha_address.map(Into::into),
            master_address: registered.master_address.map(Into::into),
            ..RegisterBrokerResponse::default()
        };
        let body = orders.map(encode_table).unwrap_or_default();
        Ok(Answer::of(header, body))
    }

    pub(super) fn unregister_broker(self) -> Outcome {
        let asked = BrokerIdentityRequest::decode(&self.command.fields)?;
        let who = BrokerIdentity {
            cluster: &asked.cluster_name,
            name: &asked.broker_name,
            id: asked.broker_id,
            address: &asked.broker_address,
        };
        let changing = self.changing.unwrap_or_else(|| self.server.change());
        self.server.unregister(&changing, &who);
        Ok(Answer::default())
    }

    pub(super) fn query_data_version(&self) -> Outcome {
        let asked = BrokerIdentityRequest::decode(&self.command.fields)?;
        let theirs = decode_data_version(self.command.body)?;
        let mut state = self.server.state.write();
        let ours = state.registry.data_version(&asked.cluster_name, &asked.broker_address);
        let changed = ours != Some(theirs);
        if !changed {
            state.registry.heartbeat(&asked.cluster_name, &asked.broker_address, self.now);
        }
        let header = QueryDataVersionResponse { changed, ..QueryDataVersionResponse::default() };
        let body = ours.map(|version| encode_data_version(&version)).unwrap_or_default();
        Ok(Answer::of(header, body))
    }

    pub(super) fn broker_heartbeat(&self) -> Outcome {
        let asked = BrokerHeartbeatRequest::decode(&self.command.fields)?;
        self.server.state.write().registry.heartbeat(&asked.cluster_name, &asked.broker_address, self.now);
        Ok(Answer::default())
    }

    pub(super) fn route(&self) -> Outcome {
        let asked = RouteRequest::decode(&self.command.fields)?;
        let state = self.server.state.read();
        let options = &state.options;
        if options.need_wait_for_service && !self.server.has_served.load(Ordering::Relaxed) {
            let wait_ms = options.wait_for_service_seconds.saturating_mul(1000);
            if self.now.monotonic.ms_since(self.server.started_at) < wait_ms {
                let remark = "name server not ready: it waits for brokers to register; try again later".to_owned();
                return Err(Refusal::Unavailable(remark).into());
            }
        }
        let Some(mut route) = state.registry.route(&asked.topic, options.support_acting_master) else {
            return Err(no_route(&asked.topic));
        };
        self.server.has_served.store(true, Ordering::Relaxed);
        if options.order_message_enable {
            route.order_topic_conf = state.key_values.get(ORDER_TOPIC_NAMESPACE, &asked.topic).map(str::to_owned);
        }
        drop(state);
        if self.command.fields.get(ZONE_MODE).is_some_and(|mode| mode.eq_ignore_ascii_case("true"))
            && let Some(zone) = self.zone()
        {
            keep_zone(&mut route, &zone);
        }
        let wants_strict = asked.accept_standard_json_only == Some(true);
        Ok(route.encode(route_dialect(self.command.header.version, wants_strict)).into())
    }

    pub(super) fn cluster_info(&self) -> Outcome {
        let info = self.server.state.read().registry.cluster_info();
        Ok(info.encode().into())
    }

    pub(super) fn member_group(&self) -> Outcome {
        let asked = MemberGroupRequest::decode(&self.command.fields)?;
        let group = self.server.state.read().registry.member_group(&asked.cluster_name, &asked.broker_name);
        Ok(group.encode().into())
    }

    pub(super) fn wipe_write_permission(self) -> Outcome {
        let asked = BrokerNameRequest::decode(&self.command.fields)?;
        let changing = self.changing.unwrap_or_else(|| self.server.change());
        let count = self.server.wipe_write_permission(&changing, &asked.broker_name);
        let header = WipeWritePermissionResponse { wiped_topic_count: number(count), ..Default::default() };
        Ok(Answer::of(header, Bytes::new()))
    }

    pub(super) fn add_write_permission(self) -> Outcome {
        let asked = BrokerNameRequest::decode(&self.command.fields)?;
        let changing = self.changing.unwrap_or_else(|| self.server.change());
        let count = self.server.add_write_permission(&changing, &asked.broker_name);
        let header = AddWritePermissionResponse { added_topic_count: number(count), ..Default::default() };
        Ok(Answer::of(header, Bytes::new()))
    }

    pub(super) fn register_topic(self) -> Outcome {
        let asked = TopicRequest::decode(&self.command.fields)?;
        let route = TopicRouteData::decode(self.command.body)?;
        let changing = self.changing.unwrap_or_else(|| self.server.change());
        self.server.register_topic(&changing, &asked.topic, &route.queue_datas)?;
        Ok(Answer::default())
    }

    pub(super) fn delete_topic(self) -> Outcome {
        let asked = TopicRequest::decode(&self.command.fields)?;
        let cluster = asked.cluster_name.as_deref().filter(|cluster| !cluster.is_empty());
        let changing = self.changing.unwrap_or_else(|| self.server.change());
        self.server.delete_topic(&changing, &asked.topic, cluster);
        Ok(Answer::default())
    }

    pub(super) fn all_topics(&self) -> Outcome {
        let state = self.server.state.read();
        check_enabled(state.options.enable_all_topic_list, "enableAllTopicList")?;
        let names = state.registry.topic_names();
        drop(state);
        Ok(sorted_list(names))
    }

    pub(super) fn topics_of_cluster(&self) -> Outcome {
        let asked = ClusterRequest::decode(&self.command.fields)?;
        let state = self.server.state.read();
        check_enabled(state.options.enable_topic_list, "enableTopicList")?;
        let names = state.registry.topics_of_cluster(&asked.cluster);
        drop(state);
        Ok(sorted_list(names))
    }

    pub(super) fn system_topics(&self) -> Outcome {
        let state = self.server.state.read();
        let (topic_list, broker_addr) = state.registry.system_topics();
        Ok(TopicList { broker_addr, topic_list }.encode().into())
    }

    pub(super) fn unit_topics(&self, filter: UnitFilter) -> Outcome {
        let state = self.server.state.read();
        check_enabled(state.options.enable_topic_list, "enableTopicList")?;
        let names = state.registry.unit_topics(filter);
        drop(state);
        Ok(sorted_list(names))
    }

    pub(super) fn update_settings(&self) -> Outcome {
        self.server.state.write().options.apply(self.command.body)?;
        Ok(Answer::default())
    }

    pub(super) fn settings(&self) -> Outcome {
        Ok(Bytes::from(self.server.state.read().options.to_text()).into())
    }
}

/// Each name once, in order.
fn sorted_list(mut names: Vec<Arc<str>>) -> Answer {
    names.sort_unstable();
    names.dedup();
    TopicList { broker_addr: None, topic_list: names.iter().map(AsRef::as_ref).collect::<Vec<&str>>() }.encode().into()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn check_enabled(is_enabled: bool, setting: &str) -> Result<(), Rejection> {
    if is_enabled {
        return Ok(());
    }
    Err(Refusal::Unavailable(format!("disable: lists of topics are switched off by the setting {setting}")).into())
}

fn no_route(topic: &str) -> Rejection {
    let topic = topic.chars().take(base::limits::INTERNAL_TOPIC_NAME_SIZE_MAX).collect::<String>();
    let remark = format!(
        "No topic route info in name server for the topic: {topic}\n\
         No broker has it: create it (mqadmin updateTopic), or check that its broker runs and registers here"
    );
    Rejection { code: response::TOPIC_NOT_EXIST, remark }
}

pub(super) fn not_supported(code: i32) -> Rejection {
    let name = request::name(code);
    let remark = format!(
        " request type {code} not supported: the name server does not answer {name}; \
         requests about messages, groups and queues go to a broker"
    );
    Rejection { code: response::REQUEST_CODE_NOT_SUPPORTED, remark }
}
