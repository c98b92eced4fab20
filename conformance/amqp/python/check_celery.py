"""Checks with workers of Celery what its users count on: PORT ["waiting"], of which the second checks that alone. Says which promise does not hold, and ends with 1 then."""

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

os.environ["CELERY_BROKER_URL"] = f"amqp://guest:guest@127.0.0.1:{sys.argv[1]}//"
FOLDER = tempfile.TemporaryDirectory()
STARTED = os.environ["CELERY_STARTED_FILE"] = os.path.join(FOLDER.name, "started")

import celery  # noqa: E402
from celery_tasks import add, app, at_the_third_try, fails, now, who_has_it  # noqa: E402

LIMIT = 20


class Worker:
    """A worker with processes, as `celery worker` starts it."""

    def __init__(self, name, *options):
        self.name = f"{name}@conformance"
        command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-n", self.name, *options]
        self.log = open(os.path.join(FOLDER.name, name), "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)
        wait_until(lambda: self.name in pinged(), f"{self.name} answers", 60)

    def stop(self):
        """Asks it to stop, and waits until it has. One that waits for its own processes for ever is killed: no broker can help that."""
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(LIMIT) == 0, self.name
        except subprocess.TimeoutExpired:
            # It writes into its log where it is.
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            if "self._pool.join()" not in open(self.log.name).read():
                raise
            self.kill()

    def kill(self):
        """Kills it and the processes that work for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def wait_until(is_so, what, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def pinged():
    return {name for answer in app.control.ping(timeout=0.5) for name in answer}


def results_come_back():
    assert add.delay(2, 3).get(timeout=LIMIT) == 5
    results = [add.delay(number, number) for number in range(300)]
    assert [result.get(timeout=LIMIT) for result in results] == [2 * number for number in range(300)]


def so_do_errors():
    try:
        fails.delay().get(timeout=LIMIT)
    except ValueError as error:
        assert str(error) == "as it should"
    else:
        raise AssertionError("it did not fail")


def groups_and_chains():
    together = celery.group(add.s(number, 1) for number in range(20)).apply_async()
    assert together.get(timeout=LIMIT) == list(range(1, 21))
    assert celery.chain(add.s(1, 2), add.s(3), add.s(4)).apply_async().get(timeout=LIMIT) == 10


def tries_again():
    assert at_the_third_try.delay().get(timeout=LIMIT) == 2


def waits_for_its_time():
    """Tasks that wait for their time hold up none that is due; nor do more than a prefetch where Celery raises it for them."""
    with app.connection_for_read() as connection:
        count = 5 if connection.qos_semantics_matches_spec else 50
    assert (count == 50) == ("waiting" in sys.argv), "the server's version decides"
    begin = time.time()
    later = [now.apply_async(countdown=2) for _ in range(count)]
    at = now.apply_async(eta=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2))
    assert now.delay().get(timeout=LIMIT) < begin + 2
    times = [result.get(timeout=LIMIT) - begin for result in [*later, at]]
    assert min(times) >= 2 and max(times) < 4, times


def is_forgotten_in_time():
    expired = add.apply_async((1, 1), countdown=0.6, expires=0.3)
    try:
        expired.get(timeout=LIMIT)
    except celery.exceptions.TaskRevokedError:
        return
    raise AssertionError("it did not expire")


def workers_are_inspected(*workers):
    names = {worker.name for worker in workers}
    asked = app.control.inspect(timeout=5, limit=len(names))
    assert asked.ping() == {name: {"ok": "pong"} for name in names}
    assert all("celery_tasks.add" in tasks for tasks in asked.registered().values())
    for queues in asked.active_queues().values():
        assert [queue["name"] for queue in queues] == ["celery"], queues
    for stats in asked.stats().values():
        assert stats["broker"]["transport"] == "amqp", stats
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "inspect", "ping"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0 and said.stdout.count("pong") == len(names), said


def workers_are_told(first, second):
    """What is said to one of them is done by it alone, what is said to all by all."""
    said = app.control.add_consumer("of-the-second", destination=[second.name], reply=True, timeout=5, limit=1)
    assert [*said[0]] == [second.name], said
    who = who_has_it.apply_async((0,), queue="of-the-second").get(timeout=LIMIT)
    assert who[0] == second.name, who
    app.control.cancel_consumer("of-the-second", destination=[second.name], reply=True, timeout=5, limit=1)
    waiting = who_has_it.apply_async((0,), countdown=3600)
    scheduled = app.control.inspect(timeout=5, limit=2).scheduled
    wait_until(lambda: any(scheduled().values()), "it is scheduled")
    waiting.revoke()
    wait_until(lambda: not any(scheduled().values()) or revoked(waiting), "it is revoked")


def revoked(result):
    return all(result.id in ids for ids in app.control.inspect(timeout=5, limit=2).revoked().values())


def events_are_heard():
    heard = []

    def listen():
        with app.connection() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": heard.append})
            with contextlib.suppress(StopIteration, TimeoutError):
                receiver.capture(limit=None, timeout=5, wakeup=True)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    app.control.enable_events(reply=True, timeout=5, limit=2)
    wait_until(lambda: any(event["type"] == "worker-heartbeat" for event in heard), "a worker's heartbeat")
    task = add.delay(1, 1)
    types = lambda: [event["type"] for event in heard if event.get("uuid") == task.id]  # noqa: E731
    wait_until(lambda: "task-succeeded" in types(), "the task's events")
    assert types() == ["task-received", "task-started", "task-succeeded"], types()


def a_killed_workers_task_is_done_by_another(first, second):
    """Whoever had it is killed while it works."""
    open(STARTED, "w").close()
    result = who_has_it.delay(60)
    wait_until(lambda: os.path.getsize(STARTED), "somebody has it")
    who = open(STARTED).read().split()[0]
    killed, other = (first, second) if who == first.name else (second, first)
    killed.kill()
    done = result.get(timeout=LIMIT)
    assert done == [other.name, True], done
    return other


def a_worker_that_stops_gives_back_what_it_did_not_do(worker):
    open(STARTED, "w").close()
    results = [who_has_it.delay(0.4) for _ in range(20)]
    wait_until(lambda: os.path.getsize(STARTED), "it has one")
    worker.stop()
    next_worker = Worker("third")
    try:
        names = {result.get(timeout=LIMIT)[0] for result in results}
        assert names == {worker.name, next_worker.name}, names
    finally:
        next_worker.stop()


def check(promise, *more):
    given = promise(*more)
    print(f"{promise.__name__}: holds", flush=True)
    return given


workers = []
try:
    workers.append(Worker("first"))
    check(waits_for_its_time)
    if "waiting" not in sys.argv:
        for promise in [results_come_back, so_do_errors, groups_and_chains, tries_again, is_forgotten_in_time]:
            check(promise)
        workers.append(Worker("second"))
        check(workers_are_inspected, *workers)
        check(workers_are_told, *workers)
        check(events_are_heard)
        left = check(a_killed_workers_task_is_done_by_another, *workers)
        check(a_worker_that_stops_gives_back_what_it_did_not_do, left)
finally:
    for worker in workers:
        worker.kill()
        if sys.exc_info()[0]:
            worker.log.seek(0)
            print(worker.name, worker.log.read())
