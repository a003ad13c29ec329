//! Random rows and transitions from small pools, so that conditions often meet their values.

use glassline_protocol::ids::{JobKey, Run, TaskId, Token};
use glassline_protocol::provider::{ErrorClass, Media};
use glassline_protocol::rank::{QueueEntry, held_entry, later_entry, rank, ready_entry};
use glassline_protocol::row::{JobRow, LaneRow, QaState, Row, SlotKey, SlotRow, Status};
use glassline_protocol::rule::{Rule, When};
use glassline_protocol::sign::receipt_of;
use glassline_tests::lane_name;

/// A source of numbers that depends on nothing but its seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }

    pub(crate) fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(60).then(|| value(self))
    }

    pub(crate) fn token(&mut self) -> Token {
        Token::new(self.pick(&["000000000000000a", "000000000000000b", "000000000000000c"])).unwrap()
    }

    pub(crate) fn run(&mut self) -> Run {
        Run::new(self.pick(&["00000000000000d0", "00000000000000d1"])).unwrap()
    }

    pub(crate) fn task(&mut self) -> TaskId {
        TaskId::new(self.pick(&["rnd_1", "rnd_2"])).unwrap()
    }

    pub(crate) fn ms(&mut self) -> u64 {
        self.pick(&[1_000, 2_000, 1_764_000_000_000])
    }

    pub(crate) fn small(&mut self) -> u32 {
        u32::try_from(self.below(4)).unwrap()
    }

    pub(crate) fn class(&mut self) -> ErrorClass {
        self.pick(&[
            ErrorClass::Throttled,
            ErrorClass::Transient,
            ErrorClass::InvalidInput,
            ErrorClass::Moderated,
            ErrorClass::PaymentRequired,
            ErrorClass::Unauthorized,
            ErrorClass::BadOutput,
        ])
    }

    pub(crate) fn reason(&mut self) -> String {
        let long = "é".repeat(200);
        self.pick(&["", "it broke", "\"quoted\"\n\u{1}, €", &long]).to_owned()
    }

    /// An entry of the index.
    pub(crate) fn entry(&mut self) -> QueueEntry {
        let (lane, attempt, ms) = (lane_name("a"), self.small(), self.ms());
        let rank = rank(self.small() * 100, ms, self.small(), None);
        match self.below(3) {
            0 => ready_entry(&lane, &rank, attempt),
            1 => later_entry(&lane, ms, &rank, attempt),
            _ => held_entry(&lane, ms, attempt),
        }
    }

    pub(crate) fn job(&mut self, key: JobKey) -> JobRow {
        let entry = self.maybe(Self::entry);
        JobRow {
            key,
            status: self.pick(Status::ALL),
            attempt: self.small(),
            failures: self.small(),
            token: self.maybe(Self::token),
            run: self.maybe(Self::run),
            slot: self.maybe(Self::small),
            price_micros: self.maybe(Self::ms),
            lease_ms: self.maybe(Self::ms),
            accepted_ms: self.maybe(Self::ms),
            receipt: self.maybe(|random| receipt_of(&random.token())),
            started_ms: self.maybe(Self::ms),
            lane: lane_name("a"),
            rank: rank(500, 1_000, 0, None),
            created_ms: 1_000,
            media: self.pick(&[Media::Image, Media::Video]),
            width_px: self.maybe(Self::small),
            height_px: self.maybe(Self::small),
            task: self.maybe(Self::task),
            error_class: self.maybe(Self::class),
            error: self.maybe(Self::reason),
            cancel_requested: self.chance(30),
            qa: self.maybe(|random| random.pick(QaState::ALL)),
            ended_ms: self.maybe(Self::ms),
            queue_pk: entry.as_ref().map(|entry| entry.pk.clone()),
            queue_sk: entry.map(|entry| entry.sk),
        }
    }

    pub(crate) fn slot(&mut self, key: SlotKey) -> SlotRow {
        let job: JobKey = self.pick(&["POST#p/SHOT#s", "EPISODE#m#000001/FRAME#2"]).parse().unwrap();
        SlotRow {
            key,
            job: self.maybe(|_| job),
            attempt: self.maybe(Self::small),
            token: self.maybe(Self::token),
            since_ms: self.maybe(Self::ms),
        }
    }

    pub(crate) fn lane(&mut self, name: &str) -> LaneRow {
        LaneRow {
            starts_per_minute: self.maybe(Self::small),
            price_micros: self.maybe(Self::ms),
            budget_micros_per_day: self.maybe(Self::ms),
            boost_ms: self.maybe(Self::ms),
            outside: self.chance(50),
            paused: self.chance(50),
            paused_until_ms: self.maybe(Self::ms),
            pause_reason: self.maybe(Self::reason),
            minute: self.maybe(Self::ms),
            minute_starts: self.small(),
            day: self.maybe(Self::ms),
            day_micros: self.ms(),
            authorised_by: self.maybe(Self::run),
            rev: u64::from(self.small()),
            ..LaneRow::new(lane_name(name), self.small())
        }
    }

    /// Makes the row fit the rule's conditions, as far as they can be met.
    fn fit<R: Row>(&mut self, row: &mut R, rule: &Rule<R::Field>) {
        use glassline_protocol::row::Value;
        for when in &rule.when {
            let (field, value) = match when {
                When::Is(field, value) | When::AbsentOrIs(field, value) => (*field, Some(value.clone())),
                When::OneOf(field, values) => (*field, Some(self.pick(values))),
                When::Absent(field) => (*field, None),
                When::Below(field, bound) | When::AbsentOrBelow(field, bound) => {
                    (*field, bound.checked_sub(1).map(|_| Value::Number(self.below(*bound))))
                }
            };
            let absent_will_do = matches!(when, When::AbsentOrIs(..) | When::AbsentOrBelow(..));
            let value = value.filter(|_| !absent_will_do || self.chance(50));
            // A field that is never absent can't be made to be.
            let _ = row.put(field, value.as_ref());
        }
    }

    /// Breaks one of the rule's conditions, perhaps: its field is taken from another row.
    fn spoil<R: Row>(&mut self, row: &mut R, other: &R, rule: &Rule<R::Field>) {
        if rule.when.is_empty() {
            return;
        }
        let field = match self.pick(&rule.when) {
            When::Is(field, _)
            | When::OneOf(field, _)
            | When::Absent(field)
            | When::Below(field, _)
            | When::AbsentOrBelow(field, _)
            | When::AbsentOrIs(field, _) => field,
        };
        let _ = row.put(field, other.get(field).as_ref());
    }

    /// A row for a case of this rule: none, any, one that fits, one that nearly fits, or one that shows its effect.
    pub(crate) fn row_for<R: Row>(
        &mut self,
        any: impl Fn(&mut Self) -> R,
        rule: &Rule<R::Field>,
    ) -> Option<R> {
        let mut row = any(self);
        match self.below(100) {
            0..5 => return None,
            5..20 => {}
            20..65 => self.fit(&mut row, rule),
            65..90 => {
                self.fit(&mut row, rule);
                let other = any(self);
                self.spoil(&mut row, &other, rule);
            }
            _ => {
                self.fit(&mut row, rule);
                row = rule.apply(&row).unwrap();
            }
        }
        Some(row)
    }
}
