//! Memory for large answers: what clients have not taken yet is bounded, all connections together.

use std::sync::Arc;

use axum::body::{self, Body, Bytes, HttpBody as _};
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// Bytes of large answers that are not taken.
const SIZE_MAX: usize = 64 * 1024 * 1024;

/// Bytes of an answer that needs no room: one a connection is little.
const SMALL_SIZE: usize = 64 * 1024;

/// Bytes that are counted as one.
const UNIT: usize = 1024;

/// Room for large answers.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// Bytes of an answer, which have their room for as long as they are somewhere on their way.
struct Kept {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SIZE_MAX / UNIT)))
    }
}

impl Room {
    /// The answer, if there is room for it. One larger than all of it needs all.
    pub(super) async fn fit(&self, answer: Response) -> Result<Response, Problem> {
        // What has no size is sent as it comes about.
        let size = answer.body().size_hint().exact().map_or(0, |size| size as usize);
        if size <= SMALL_SIZE {
            return Ok(answer);
        }
        let units = size.min(SIZE_MAX).div_ceil(UNIT) as u32;
        let room = self.0.clone().try_acquire_many_owned(units);
        // Whoever waited would hold the answer meanwhile, and a request's place.
        let full = |_| {
            Problem::busy("answers that were not taken yet fill the room for large ones; try again, or ask for less")
        };
        let room = room.map_err(full)?;
        let (head, body) = answer.into_parts();
        let bytes = body::to_bytes(body, size).await.unwrap_or_default();
        Ok(Response::from_parts(head, Body::from(Bytes::from_owner(Kept { bytes, _room: room }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_answers_have_bounded_room_until_all_of_them_is_taken_and_small_ones_need_none() {
        let room = Room::default();
        let answer = async |size: usize| {
            let answer = room.fit(Response::new(Body::from(vec![7; size]))).await?;
            Ok::<_, Problem>(body::to_bytes(answer.into_body(), usize::MAX).await.expect("a body"))
        };
        let bytes = answer(SIZE_MAX - UNIT).await.expect("there is room");
        assert_eq!(bytes.len(), SIZE_MAX - UNIT);
        assert_eq!(answer(SMALL_SIZE).await.map(|bytes| bytes.len()), Ok(SMALL_SIZE));
        let piece = bytes.slice(5..6);
        drop(bytes);
        assert!(answer(SMALL_SIZE + 1).await.is_err(), "not all is taken");
        drop(piece);
        let bytes = answer(SIZE_MAX + UNIT).await.expect("there is room");
        assert!(bytes.len() == SIZE_MAX + UNIT && bytes.iter().all(|byte| *byte == 7));
    }
}
