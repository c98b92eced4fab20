"""Tasks of a Celery application that has Celery's own settings throughout; CELERY_BROKER_URL says where its broker is."""

import os
import time

import celery

app = celery.Celery("conformance", broker=os.environ["CELERY_BROKER_URL"], backend="rpc://")


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fails():
    raise ValueError("as it should")


@app.task
def now():
    return time.time()


@app.task(bind=True, max_retries=3)
def at_the_third_try(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def who_has_it(self, seconds):
    """Takes its time, unless somebody had it before."""
    with open(os.environ["CELERY_STARTED_FILE"], "a") as started:
        started.write(f"{self.request.hostname} {os.getpid()}\n")
    had = self.request.delivery_info["redelivered"]
    if not had:
        time.sleep(seconds)
    return [self.request.hostname, had]
