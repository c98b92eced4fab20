//! The admin API: JSON over HTTP, for `sluice admin` and for scripts. One noun a file.
//!
//! **Always holds**: only who may is answered, see [`caller`]; a change is answered once it is in the log, and logged with who
//! asked for it; what may wait for a disk or walks large tables is done off the network threads. Requests are bounded in number, size and
//! time, and what is answered in size, so that health and metrics are answered whatever is asked for here.

mod address;
mod binding;
mod body;
mod broker;
mod caller;
mod connection;
mod document;
mod event;
mod exchange;
mod group;
mod list;
mod message;
mod nearest;
mod permission;
mod problem;
mod queue;
mod room;
mod routes;
mod setting;
mod topic;
mod topic_permission;
mod turned_away;
mod user;
mod vhost;

use std::sync::Arc;
use std::time::Duration;

use ::broker::{Broker, VirtualHost};
use aide::generate::GenContext;
use aide::openapi::Operation;
use aide::{OperationInput, OperationOutput};
use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use base::Now;
use dialect::amqp::{AdminError, Administrator};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Sources;
use crate::live::Live;
pub(crate) use address::with_dots;
pub(crate) use broker::shown as shown_broker;
use caller::Caller;
pub(crate) use caller::Peer;
use problem::Problem;
use room::Room;
use turned_away::TurnedAway;

/// Requests that are worked on at one time, each on a thread of its own.
pub const JOBS_AT_ONCE_MAX: usize = 4;

/// Requests that there are at one time. Fewer than the console's connections: others find one.
const REQUESTS_MAX: usize = 16;

/// How long a request waits for a thread.
const JOB_WAIT: Duration = Duration::from_secs(5);

/// What a request was answered.
type Answer = Result<Done, Problem>;

/// It was done; this is what there is to tell.
struct Done(Value);

impl OperationOutput for Done {
    type Inner = Value;

    fn inferred_responses(_: &mut GenContext, _: &mut Operation) -> Vec<(Option<u16>, aide::openapi::Response)> {
        vec![(Some(StatusCode::OK.as_u16()), document::response("It was done", json!({"type": "object"})))]
    }
}

impl OperationInput for Caller {}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0.to_string()).into_response()
    }
}

/// What the handlers work with.
#[derive(Clone, Debug)]
struct Admin {
    sources: Sources,
    live: Arc<Live>,
    jobs: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    room: Room,
    turned_away: Arc<TurnedAway>,
}

/// The API, below `/admin/v1`.
pub(crate) fn router(sources: Sources, live: Arc<Live>) -> Router {
    let [jobs, requests] = [JOBS_AT_ONCE_MAX, REQUESTS_MAX].map(|count| Arc::new(Semaphore::new(count)));
    let admin = Admin { sources, live, jobs, requests, room: Room::default(), turned_away: Arc::default() };
    document::described(routes::all)
        .fallback(no_such_page)
        .method_not_allowed_fallback(async || {
            Problem::method_not_allowed("the admin API does not do that to this page")
        })
        .layer(middleware::from_fn_with_state(admin.clone(), admit))
        .with_state(admin)
}

/// Answers whatever is asked for and is not there.
pub(crate) async fn no_such_page() -> Response {
    let text =
        "no such page: / is the console, /metrics has figures, and /admin/v1/openapi.json describes the admin API";
    Problem::not_found(text).into_response()
}

/// Lets a request in, if it may come and there is room.
async fn admit(State(admin): State<Admin>, mut request: Request, next: Next) -> Response {
    let caller = match Caller::of(&request, admin.sources.token.as_ref()) {
        Ok(caller) => caller,
        Err(problem) => {
            let from = request.extensions().get().map(|Peer(address)| *address);
            admin.turned_away.tell(from, problem.text(), (admin.sources.now)());
            return problem.into_response();
        }
    };
    let Ok(_permit) = admin.requests.try_acquire() else {
        return Problem::busy("too many requests to the admin API at one time; try again").into_response();
    };
    request.extensions_mut().insert(caller);
    let is_look = request.method() == Method::GET;
    let answer = next.run(request).await;
    // What came of a change is told whatever room that takes.
    if is_look { admin.room.fit(answer).await.unwrap_or_else(Problem::into_response) } else { answer }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| Problem::failed("nobody has said who asks"))
    }
}

/// A virtual host, to look at.
fn host(broker: &Broker, name: &str) -> Result<Arc<VirtualHost>, Problem> {
    broker.model.host(name).map_err(|error| Problem::of(&error, broker))
}

/// Does something in a virtual host.
fn within<T>(
    (broker, vhost): (&Broker, &str),
    now: Now,
    act: impl FnOnce(&Administrator<'_>) -> Result<T, AdminError>,
) -> Result<T, Problem> {
    let done = Administrator::new(broker, vhost, now).and_then(|administrator| act(&administrator));
    done.map_err(|error| Problem::of_admin(&error, broker))
}

impl Admin {
    /// The broker whose virtual hosts these are: of several the first has them.
    fn broker(&self) -> Result<Arc<Broker>, Problem> {
        let Some(broker) = self.sources.brokers.first() else {
            return Err(Problem::unavailable("a name server alone has no virtual hosts: ask a broker"));
        };
        if broker.follows() {
            return Err(Problem::unavailable("this broker is a slave and takes no administration: ask its master"));
        }
        if !broker.model.is_used() {
            let text = "AMQP is off here, and with it virtual hosts and users: start the broker with amqp.port or amqp.tls_port set";
            return Err(Problem::unavailable(text));
        }
        Ok(broker.clone())
    }

    /// The brokers of the process, of which each has topics and groups of its own.
    fn brokers(&self) -> Result<Vec<Arc<Broker>>, Problem> {
        if self.sources.brokers.is_empty() {
            return Err(Problem::unavailable("a name server alone has no topics: ask a broker"));
        }
        Ok(self.sources.brokers.clone())
    }

    /// Does something on a thread that may wait.
    async fn work(&self, work: impl FnOnce(Now) -> Result<Value, Problem> + Send + 'static) -> Answer {
        let permit = self.job().await?;
        let now = self.sources.now;
        let done = tokio::task::spawn_blocking(move || {
            // It has a thread until it has ended, whether its client still waits or not.
            let _permit = permit;
            work(now())
        });
        // Where the work has ended by a panic, that is in the log already.
        let done = done.await;
        done.map_err(|_| Problem::failed("the work was not finished"))?.map(Done)
    }

    /// Looks up something of virtual hosts.
    async fn read(&self, work: impl FnOnce(&Broker, Now) -> Result<Value, Problem> + Send + 'static) -> Answer {
        let broker = self.broker()?;
        self.work(move |now| work(&broker, now)).await
    }

    /// Looks up something of topics and groups.
    async fn read_all(
        &self,
        work: impl FnOnce(&[Arc<Broker>], Now) -> Result<Value, Problem> + Send + 'static,
    ) -> Answer {
        let brokers = self.brokers()?;
        self.work(move |now| work(&brokers, now)).await
    }

    /// Changes something of virtual hosts, has it in the log, and tells it. `what` says what, without secrets.
    async fn change(
        &self,
        caller: Caller,
        what: String,
        work: impl FnOnce(&Broker, Now) -> Result<Value, Problem> + Send + 'static,
    ) -> Answer {
        let change = move |broker: &Broker, now| {
            let done = work(broker, now)?;
            broker.model.write_changes()?;
            Ok(done)
        };
        self.read(move |broker, now| logged(&caller, &what, change(broker, now))).await
    }

    /// The same of topics and groups: of several brokers each has what is changed at it in its own log.
    async fn change_all(
        &self,
        caller: Caller,
        what: String,
        work: impl FnOnce(&[Arc<Broker>], Now) -> Result<Value, Problem> + Send + 'static,
    ) -> Answer {
        let change = move |brokers: &[Arc<Broker>], now| {
            if brokers.iter().any(|broker| broker.follows()) {
                let text = "a broker here is a slave and takes no administration: ask its master";
                return Err(Problem::unavailable(text));
            }
            work(brokers, now)
        };
        self.read_all(move |brokers, now| logged(&caller, &what, change(brokers, now))).await
    }

    async fn job(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match tokio::time::timeout(JOB_WAIT, self.jobs.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Problem::busy("the admin API still works on other requests; try again")),
        }
    }
}

/// Tells the log what was changed, or why it was not; where the work is done, since its client may have gone.
fn logged(caller: &Caller, what: &str, done: Result<Value, Problem>) -> Result<Value, Problem> {
    match &done {
        Ok(_) => tracing::info!(%caller, what, "administration"),
        Err(problem) => tracing::info!(%caller, what, why = problem.text(), "administration refused"),
    }
    done
}
