//! Names that may have been meant by one that there is not.

use broker::{Broker, ModelError, Shown};

/// Names that are told at most.
const TOLD_MAX: usize = 3;

/// How much alike two names have to be, of 1.
const LIKENESS_MIN: f64 = 0.5;

/// Names that are looked at: a guess is not worth more.
const LOOKED_AT_MAX: usize = 100_000;

/// The names that are there and most like the one that an error says is not.
pub(super) fn of(error: &ModelError, broker: &Broker) -> Vec<String> {
    let model = &broker.model;
    let shown = |name: &[u8]| Shown(name).to_string();
    match error {
        ModelError::NoSuchHost(name) => likest(name, model.hosts().iter().map(|host| host.name().to_string())),
        ModelError::NoSuchUser(name) => likest(name, model.access.users().into_iter().map(|(user, _)| user)),
        ModelError::NoSuchPermission { host, user } => {
            let all = model.access.permissions().into_iter();
            likest(user, all.filter(|(of, ..)| of == host).map(|(_, user, _)| user))
        }
        ModelError::NoSuchQueue { host, name } => {
            let queues = model.host(host).map(|host| host.queues()).unwrap_or_default();
            likest(&shown(name), queues.iter().map(|queue| shown(queue.name())))
        }
        ModelError::NoSuchExchange { host, name } => {
            let exchanges = model.host(host).map(|host| host.exchanges()).unwrap_or_default();
            likest(&shown(name), exchanges.iter().map(|(name, _)| shown(name)))
        }
        _ => Vec::new(),
    }
}

/// The names that are most like a wrong one.
pub(super) fn likest(wrong: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wrong = wrong.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&wrong, &name.to_lowercase());
    let names = names.take(LOOKED_AT_MAX).map(|name| (likeness(&name), name));
    let mut like: Vec<_> = names.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).collect();
    like.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    like.into_iter().take(TOLD_MAX).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_names_come_first_and_others_not_at_all() {
        let names = ["orders", "order", "Invoices", "orders-eu"].map(str::to_owned);
        assert_eq!(likest("ordres", names.clone().into_iter()), ["orders", "order", "orders-eu"]);
        assert_eq!(likest("invoice", names.clone().into_iter()), ["Invoices"]);
        assert_eq!(likest("x", names.into_iter()), Vec::<String>::new());
    }
}
