//! Who may connect, and what each may do in which virtual host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Refusal;
use format::model::{
    ModelChange, PasswordHash, PermissionSettings, Text, TopicPermissionSettings, UserLimits, UserSettings,
};
use parking_lot::RwLock;
use regex::bytes::{Regex, RegexBuilder};
use sha2::{Digest as _, Sha256};

/// Bytes that a pattern of names may take once it is compiled: one that asks for more is no pattern of names.
const PATTERN_SIZE_MAX: usize = 1 << 20;

/// What somebody wants to do with an exchange or a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Make or remove it.
    Configure,
    /// Give it messages.
    Write,
    /// Take messages from it.
    Read,
}

/// What a user may do in a virtual host.
#[derive(Clone, Debug)]
pub struct Permission {
    settings: PermissionSettings,
    configure: Regex,
    write: Regex,
    read: Regex,
}

impl Permission {
    /// With the patterns of names compiled; a text that is no pattern is refused.
    pub fn of(settings: PermissionSettings) -> Result<Self, Refusal> {
        let [configure, write, read] =
            [&settings.configure, &settings.write, &settings.read].map(|text| compiled(text));
        Ok(Self { configure: configure?, write: write?, read: read?, settings })
    }

    /// Whether that may be done with what has this name.
    pub fn allows(&self, right: Right, name: &[u8]) -> bool {
        let pattern = match right {
            Right::Configure => &self.configure,
            Right::Write => &self.write,
            Right::Read => &self.read,
        };
        pattern.is_match(name)
    }
}

/// What a user may do with messages of a topic exchange.
#[derive(Clone, Debug)]
pub struct TopicPermission {
    settings: TopicPermissionSettings,
    write: Regex,
    read: Regex,
}

impl TopicPermission {
    /// With the patterns of keys compiled for a user in a virtual host; a text that is no pattern is refused.
    pub fn of(settings: TopicPermissionSettings, host: &str, user: &str) -> Result<Self, Refusal> {
        let meant = |text: &str| {
            // A name stands for itself, whatever its characters mean in a pattern.
            let text = text.replace("{username}", &regex::escape(user)).replace("{vhost}", &regex::escape(host));
            compiled(&text)
        };
        Ok(Self { write: meant(&settings.write)?, read: meant(&settings.read)?, settings })
    }

    /// Whether that may be done by this key.
    pub fn allows(&self, right: Right, key: &[u8]) -> bool {
        match right {
            // Keys say nothing of that.
            Right::Configure => true,
            Right::Write => self.write.is_match(key),
            Right::Read => self.read.is_match(key),
        }
    }
}

/// What a user may do with messages of topic exchanges of a virtual host, by exchange; of others any key may be used.
pub type TopicPermissions = BTreeMap<Text, TopicPermission>;

fn compiled(text: &str) -> Result<Regex, Refusal> {
    // An empty pattern allows the empty name alone.
    let text = if text.is_empty() { "^$" } else { text };
    let built = RegexBuilder::new(text).size_limit(PATTERN_SIZE_MAX).build();
    built.map_err(|error| Refusal::BadRequest(format!("[{text}] is no pattern of names: {error}")))
}

/// What is kept of a password. `salt` has to be random.
pub fn hash_password(password: &[u8], salt: [u8; 4]) -> PasswordHash {
    PasswordHash { salt, sha256: Sha256::new().chain_update(salt).chain_update(password).finalize().into() }
}

/// Users and permissions.
#[derive(Debug, Default)]
pub struct Access {
    table: RwLock<Table>,
    /// Changes whenever anything does.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    users: BTreeMap<String, UserSettings>,
    /// By virtual host and user.
    permissions: BTreeMap<(String, String), Arc<Permission>>,
    /// The same; none is empty.
    topic_permissions: BTreeMap<(String, String), Arc<TopicPermissions>>,
    /// Of users who have any.
    limits: BTreeMap<String, UserLimits>,
}

impl Access {
    /// Changes whenever users or permissions do: what was looked up before may be otherwise.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether that is the user's password.
    pub fn is_password(&self, user: &str, password: &[u8]) -> bool {
        let kept = self.table.read().users.get(user).and_then(|settings| settings.password.clone());
        // The time that this takes tells nobody whether there is such a user.
        let known = kept.clone().unwrap_or(PasswordHash { salt: [0; 4], sha256: [0; 32] });
        let given = hash_password(password, known.salt);
        let differs = given.sha256.iter().zip(known.sha256).fold(0, |differs, (one, other)| differs | (one ^ other));
        kept.is_some() && differs == 0
    }

    /// A user's settings.
    pub fn user(&self, name: &str) -> Option<UserSettings> {
        self.table.read().users.get(name).cloned()
    }

    /// Users with their settings, sorted.
    pub fn users(&self) -> Vec<(String, UserSettings)> {
        self.table.read().users.iter().map(|(name, settings)| (name.clone(), settings.clone())).collect()
    }

    /// What a user may do in a virtual host; `None`: nothing, not even connect.
    pub fn permission(&self, host: &str, user: &str) -> Option<Arc<Permission>> {
        self.table.read().permissions.get(&(host.to_owned(), user.to_owned())).cloned()
    }

    /// Every permission: virtual host, user, patterns; sorted.
    pub fn permissions(&self) -> Vec<(String, String, PermissionSettings)> {
        let table = self.table.read();
        let all = table.permissions.iter();
        all.map(|((host, user), permission)| (host.clone(), user.clone(), permission.settings.clone())).collect()
    }

    /// What a user may do with messages of topic exchanges of a virtual host; `None`: all that permissions allow.
    pub fn topic_permissions_of(&self, host: &str, user: &str) -> Option<Arc<TopicPermissions>> {
        self.table.read().topic_permissions.get(&(host.to_owned(), user.to_owned())).cloned()
    }

    /// Every permission about messages: virtual host, user, exchange, patterns; sorted.
    pub fn topic_permissions(&self) -> Vec<(String, String, Text, TopicPermissionSettings)> {
        let table = self.table.read();
        let all = table.topic_permissions.iter().flat_map(|((host, user), of)| {
            let of = of.iter().map(|(exchange, permission)| (exchange.clone(), permission.settings.clone()));
            of.map(|(exchange, settings)| (host.clone(), user.clone(), exchange, settings))
        });
        all.collect()
    }

    /// How much a user may have.
    pub fn limits(&self, user: &str) -> UserLimits {
        self.table.read().limits.get(user).copied().unwrap_or_default()
    }

    /// What takes back all permissions of those users in those virtual hosts.
    pub(super) fn removals(&self, is_meant: impl Fn(&str, &str) -> bool) -> Vec<ModelChange> {
        let permissions = self.permissions().into_iter().filter(|(host, user, _)| is_meant(host, user));
        let permissions = permissions.map(|(host, user, _)| ModelChange::PermissionRemoved(host, user));
        let of_topics = self.topic_permissions().into_iter().filter(|(host, user, ..)| is_meant(host, user));
        let of_topics =
            of_topics.map(|(host, user, exchange, _)| ModelChange::TopicPermissionRemoved(host, user, exchange));
        permissions.chain(of_topics).collect()
    }

    /// Makes a change, if it is about users or permissions.
    pub(super) fn take_in(&self, change: &ModelChange) -> Result<(), Refusal> {
        let mut table = self.table.write();
        match change {
            ModelChange::User(name, settings) => drop(table.users.insert(name.clone(), settings.clone())),
            ModelChange::UserRemoved(name) => drop(table.users.remove(name)),
            ModelChange::Permission(host, user, settings) => {
                let permission = Arc::new(Permission::of(settings.clone())?);
                table.permissions.insert((host.clone(), user.clone()), permission);
            }
            ModelChange::PermissionRemoved(host, user) => {
                table.permissions.remove(&(host.clone(), user.clone()));
            }
            ModelChange::TopicPermission(host, user, exchange, settings) => {
                let permission = TopicPermission::of(settings.clone(), host, user)?;
                let of = table.topic_permissions.entry((host.clone(), user.clone())).or_default();
                Arc::make_mut(of).insert(exchange.clone(), permission);
            }
            ModelChange::TopicPermissionRemoved(host, user, exchange) => {
                let place = (host.clone(), user.clone());
                if let Some(of) = table.topic_permissions.get_mut(&place) {
                    Arc::make_mut(of).remove(exchange);
                    if of.is_empty() {
                        table.topic_permissions.remove(&place);
                    }
                }
            }
            ModelChange::UserLimits(user, limits) if *limits == UserLimits::default() => {
                table.limits.remove(user);
            }
            ModelChange::UserLimits(user, limits) => drop(table.limits.insert(user.clone(), *limits)),
            _ => return Ok(()),
        }
        drop(table);
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn changes(&self) -> Vec<ModelChange> {
        let users = self.users().into_iter().map(|(name, settings)| ModelChange::User(name, settings));
        let permissions = self.permissions().into_iter();
        let permissions = permissions.map(|(host, user, settings)| ModelChange::Permission(host, user, settings));
        let of_topics = self.topic_permissions().into_iter();
        let of_topics = of_topics
            .map(|(host, user, exchange, settings)| ModelChange::TopicPermission(host, user, exchange, settings));
        let limits = self.table.read().limits.clone().into_iter();
        let limits = limits.map(|(user, limits)| ModelChange::UserLimits(user, limits));
        users.chain(permissions).chain(of_topics).chain(limits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(configure: &str, write: &str, read: &str) -> PermissionSettings {
        PermissionSettings { configure: configure.to_owned(), write: write.to_owned(), read: read.to_owned() }
    }

    #[test]
    fn patterns_say_what_may_be_done_with_which_names() {
        let permission = Permission::of(permission("^own-", ".*", "")).expect("patterns");
        assert!(permission.allows(Right::Configure, b"own-queue") && !permission.allows(Right::Configure, b"my-own-"));
        assert!(permission.allows(Right::Write, b"anything\xff") && permission.allows(Right::Write, b""));
        assert!(permission.allows(Right::Read, b"") && !permission.allows(Right::Read, b"a"));
        assert!(Permission::of(self::permission("(", "", "")).is_err());
        assert!(Permission::of(self::permission("(a{1000}){1000}", "", "")).is_err(), "too large");
    }

    #[test]
    fn patterns_of_keys_know_whose_they_are() {
        let settings = |write: &str| TopicPermissionSettings { write: write.to_owned(), read: String::new() };
        let permission = TopicPermission::of(settings(r"^{vhost}\.{username}\."), "a.b", "anna").expect("patterns");
        assert!(
            permission.allows(Right::Write, b"a.b.anna.news") && !permission.allows(Right::Write, b"a-b.anna.news")
        );
        assert!(
            !permission.allows(Right::Write, b"a.b.bert.news") && !permission.allows(Right::Read, b"a.b.anna.news")
        );
        let odd = TopicPermission::of(settings("^{username}$"), "/", "(").expect("a name is no pattern");
        assert!(odd.allows(Right::Write, b"(") && TopicPermission::of(settings("("), "/", "anna").is_err());
    }

    #[test]
    fn only_its_password_lets_a_user_in() {
        let access = Access::default();
        let settings =
            |password: Option<PasswordHash>| UserSettings { password, tags: vec!["administrator".to_owned()] };
        access
            .take_in(&ModelChange::User("a".to_owned(), settings(Some(hash_password(b"secret", [1, 2, 3, 4])))))
            .expect("made");
        access.take_in(&ModelChange::User("b".to_owned(), settings(None))).expect("made");
        assert!(access.is_password("a", b"secret"));
        for (user, password) in [("a", &b"Secret"[..]), ("a", b""), ("b", b""), ("c", b"secret")] {
            assert!(!access.is_password(user, password), "{user}");
        }
    }
}
