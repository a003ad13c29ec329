//! One JSON object a line, flat: what an event says, and under it what its spans say, so that every line about a job
//! names the job.

use super::fields::Fields;
use serde_json::{Map, Value};
use std::fmt;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{MakeWriter, format::Writer};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Writes the lines.
pub(super) struct Lines<W>(pub(super) W);

fn timestamp() -> String {
    let mut text = String::new();
    // A clock that can't be written leaves the text as far as it came.
    let _: fmt::Result = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Fields(fields)) = span.extensions().get::<Fields>() {
                line.extend(fields.clone());
            }
        }
        line.extend(Fields::of(event).0);
        line.insert("timestamp".into(), timestamp().into());
        line.insert("level".into(), event.metadata().level().as_str().into());
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // A log that can't be written must not stop the function.
        let _ = std::io::Write::write_all(&mut self.0.make_writer(), text.as_bytes());
    }
}
