//! How often each kind of trouble may still happen.

macro_rules! budget {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// How often each kind of trouble may still happen.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct Budget { $($(#[$doc])* pub $field: u8),* }
        impl Budget {
            /// All of it together.
            #[must_use]
            pub fn total(&self) -> u32 { 0 $(+ u32::from(self.$field))* }
            /// Its text, without what is 0.
            #[must_use]
            pub fn text(&self) -> String {
                let parts: Vec<String> = [$((stringify!($field), self.$field)),*]
                    .into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name}={n}")).collect();
                parts.join(" ")
            }
            /// Sets one by its name.
            ///
            /// # Errors
            /// There is none of this name.
            pub fn set(&mut self, name: &str, value: u8) -> Result<(), String> {
                match name {
                    $(stringify!($field) => self.$field = value,)*
                    other => return Err(format!("there is no budget `{other}`")),
                }
                Ok(())
            }
        }
    };
}

budget! {
    /// An invocation dies, before or after a call.
    crash,
    /// A request or a reply of a table write is lost.
    lost,
    /// A table write arrives after its caller gave it up.
    late,
    /// A message is delivered twice.
    dup,
    /// A send's request or reply is lost.
    unsent,
    /// A submit's request or reply is lost, or it arrives late.
    submit,
    /// The clock moves on while something else could happen: somebody is slow.
    early,
    /// A full tick while something else is going on.
    tick,
    /// The provider refuses a submit.
    reject,
    /// The provider refuses a submit for the account's sake: throttled.
    throttle,
    /// A render fails at the provider.
    fail,
    /// A render is cancelled at the provider by somebody else.
    foreign,
    /// The provider loses a render that it accepted.
    drop,
    /// The vault refuses an output.
    badout,
    /// Our policy bars an output.
    barred,
    /// An output's address has expired.
    expired,
    /// The index shows an old entry, or not yet a new one.
    stale,
    /// A lookup doesn't find a render yet.
    lag,
    /// The provider doesn't answer a question.
    mute,
    /// The provider doesn't honour a cancel.
    refuse,
    /// Somebody sends a callback for a task.
    callback,
    /// A person asks to cancel.
    cancel,
    /// A person asks for another attempt.
    requeue,
    /// A person accepts or rejects at QA.
    review,
    /// An outside dispatcher's claim is accepted or given back.
    outside,
    /// A frame fails for good (episodes).
    framefail,
    /// A person reopens an episode.
    reopen,
}
