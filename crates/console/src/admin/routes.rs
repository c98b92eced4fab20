//! Every page of the admin API: its path, what can be done with it and by whom, and what the document says of that.

use aide::axum::ApiRouter;
use aide::axum::routing::{delete_with, get_with, post_with, put_with};
use aide::transform::TransformOperation;

use super::{
    Admin, binding, broker, connection, event, exchange, group, message, permission, queue, setting, topic,
    topic_permission, user, vhost,
};

/// The pages, below `/admin/v1`.
pub(super) fn all() -> ApiRouter<Admin> {
    about_brokers().merge(about_topics()).merge(about_virtual_hosts())
}

fn said(summary: &'static str) -> impl FnOnce(TransformOperation<'_>) -> TransformOperation<'_> {
    |operation| operation.summary(summary)
}

fn about_brokers() -> ApiRouter<Admin> {
    ApiRouter::new()
        .api_route(
            "/brokers",
            get_with(broker::list, said("The brokers of the process: how they are, and their slaves")),
        )
        .api_route(
            "/connections",
            get_with(connection::list, said("Clients that are connected, and the groups they are in")),
        )
        .api_route("/connections/{number}", delete_with(connection::close, said("Closes a connection of AMQP")))
        .api_route(
            "/events",
            get_with(event::follow, said("How the process is, as it changes; for the page in the browser")),
        )
        .api_route(
            "/settings",
            get_with(setting::list, said("All settings, and where each comes from"))
                .patch_with(setting::change, said("Changes settings until the next start, all or none")),
        )
}

fn about_topics() -> ApiRouter<Admin> {
    ApiRouter::new()
        .api_route(
            "/topics",
            get_with(topic::list, said("Topics"))
                .post_with(topic::add, said("Makes a topic, at each broker of the process")),
        )
        .api_route(
            "/topics/{topic}",
            get_with(topic::show, said("One topic: its settings, its groups, what is in each queue"))
                .put_with(topic::alter, said("Alters a topic; what is left out stays"))
                .delete_with(topic::remove, said("Removes a topic and its messages")),
        )
        .api_route(
            "/topics/{topic}/offsets",
            get_with(topic::offsets, said("Where messages of a time begin in each queue")),
        )
        .api_route(
            "/topics/{topic}/messages",
            get_with(message::find, said("Messages by key, by the id their producer made, or by queue and offset"))
                .post_with(message::send, said("Sends a message of text")),
        )
        .api_route("/topics/{topic}/copies", post_with(message::copy, said("Copies messages to another topic")))
        .api_route("/messages/{id}", get_with(message::show, said("The message of an id that a broker gave it")))
        .api_route("/groups", get_with(group::list, said("Consumer groups, and how far each is behind")))
        .api_route(
            "/groups/{group}",
            get_with(group::show, said("One group: its members, and its lag in each queue"))
                .delete_with(group::remove, said("Removes a group")),
        )
        .api_route(
            "/groups/{group}/reset",
            post_with(group::reset, said("Has a group go on elsewhere; tells where that is with dry_run")),
        )
        .api_route(
            "/groups/{group}/resend",
            post_with(group::resend, said("Sends dead letters once more; counts them with dry_run")),
        )
}

fn about_virtual_hosts() -> ApiRouter<Admin> {
    ApiRouter::new()
        .api_route(
            "/vhosts",
            get_with(vhost::list, said("Virtual hosts")).post_with(vhost::add, said("Makes a virtual host")),
        )
        .api_route("/vhosts/{vhost}", delete_with(vhost::remove, said("Removes a virtual host with all that is in it")))
        .api_route(
            "/vhosts/{vhost}/limits",
            put_with(vhost::limit, said("Limits a virtual host; what is left out is not limited")),
        )
        .api_route("/users", get_with(user::list, said("Users of AMQP")).post_with(user::add, said("Makes a user")))
        .api_route("/users/{user}", delete_with(user::remove, said("Removes a user")))
        .api_route("/users/{user}/password", put_with(user::set_password, said("Sets a password")))
        .api_route("/users/{user}/tags", put_with(user::set_tags, said("Sets tags")))
        .api_route(
            "/users/{user}/limits",
            put_with(user::limit, said("Limits a user; what is left out is not limited")),
        )
        .api_route("/permissions", get_with(permission::list, said("What users may do in virtual hosts")))
        .api_route(
            "/vhosts/{vhost}/permissions/{user}",
            put_with(permission::set, said("Sets what a user may do in a virtual host"))
                .delete_with(permission::clear, said("Takes all of a user's permissions in a virtual host")),
        )
        .api_route(
            "/topic-permissions",
            get_with(
                topic_permission::list,
                said("By which keys users may publish to topic exchanges, and bind from them"),
            ),
        )
        .api_route(
            "/vhosts/{vhost}/topic-permissions/{user}/{exchange}",
            put_with(topic_permission::set, said("Sets by which keys a user may publish and bind"))
                .delete_with(topic_permission::clear, said("Takes a restriction to keys away")),
        )
        .api_route(
            "/vhosts/{vhost}/exchanges",
            get_with(exchange::list, said("Exchanges")).post_with(exchange::add, said("Makes an exchange")),
        )
        .api_route("/vhosts/{vhost}/exchanges/{exchange}", delete_with(exchange::remove, said("Removes an exchange")))
        .api_route(
            "/vhosts/{vhost}/queues",
            get_with(queue::list, said("Queues")).post_with(queue::add, said("Makes a queue")),
        )
        .api_route(
            "/vhosts/{vhost}/queues/{queue}",
            get_with(queue::show, said("One queue: what is in it, and who consumes"))
                .delete_with(queue::remove, said("Removes a queue and its messages")),
        )
        .api_route(
            "/vhosts/{vhost}/queues/{queue}/messages",
            delete_with(queue::purge, said("Drops the messages of a queue that are ready")),
        )
        .api_route(
            "/vhosts/{vhost}/bindings",
            get_with(binding::list, said("Bindings"))
                .post_with(binding::add, said("Binds a queue or an exchange to an exchange"))
                .delete_with(binding::remove, said("Removes a binding")),
        )
}
