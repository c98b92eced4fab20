//! How RocketMQ's protocol is spoken, beyond what every load has to say.

use clap::ValueEnum;
use serde::Serialize;
use wire::rocketmq::frame::Form;

/// How request headers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum HeaderForm {
    /// Fixed numbers and length-prefixed fields: cheaper for both sides.
    #[default]
    #[value(help = None::<&str>)]
    Binary,
    /// A JSON object: what official clients send unless told otherwise.
    #[value(help = None::<&str>)]
    Json,
}

impl HeaderForm {
    pub(crate) const fn wire(self) -> Form {
        match self {
            Self::Binary => Form::Binary,
            Self::Json => Form::Json,
        }
    }
}

/// RocketMQ's remoting protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RocketMq {
    /// Header form.
    pub form: HeaderForm,
    /// Sets UNIQ_KEY, as every official client does.
    pub unique_key: bool,
}

impl RocketMq {
    /// For the report of a run.
    pub(crate) fn described(self) -> serde_json::Value {
        serde_json::json!({ "rocketmq": self })
    }
}

impl Default for RocketMq {
    fn default() -> Self {
        Self { form: HeaderForm::Binary, unique_key: true }
    }
}
