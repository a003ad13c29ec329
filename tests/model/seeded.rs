/// Seeded faults of order and control flow: name, file, the text that occurs once, and what stands there instead;
/// `SEEDED` is whether the fault is switched on.
const SEEDED: &[(&str, &str, &str, &str)] = &[
    (
        "own effects are known by less",
        "shared/protocol/src/settle.rs",
        "    let rule = transition.rule();
    for _ in 0..=repeats {
        if let Some(settled) = judge(store.change_job(key, transition).await, &rule) {",
        "    let mut rule = transition.rule();
    crate::mutants::change_mine(transition, &mut rule);
    for _ in 0..=repeats {
        if let Some(settled) = judge(store.change_job(key, transition).await, &rule) {",
    ),
    (
        "a reservation is given out unvoided",
        "functions/dispatch/src/tick.rs",
        "            SlotState::Stale => match void(ports, settings, &slot, job).await {",
        "            SlotState::Stale if SEEDED => push(&mut free, lane, slot),
            SlotState::Stale => match void(ports, settings, &slot, job).await {",
    ),
    (
        "a lease that is over tells nobody",
        "functions/dispatch/src/tick.rs",
        "                rollbacks.extend(job.and_then(|job| rollback(job, RollbackCause::LeaseOver)))",
        "                if !SEEDED { rollbacks.extend(job.and_then(|job| rollback(job, RollbackCause::LeaseOver))) }",
    ),
    (
        "a held job is never looked at",
        "functions/dispatch/src/tick.rs",
        "    if keys.is_empty() {",
        "    if SEEDED || keys.is_empty() {",
    ),
    (
        "a slot is free while its job lives",
        "functions/dispatch/src/tick.rs",
        "            SlotState::Busy | SlotState::Reserved => {}",
        "            SlotState::Busy if SEEDED => push(&mut free, lane, slot),
            SlotState::Busy | SlotState::Reserved => {}",
    ),
    (
        "the lease is not measured before the submit",
        "functions/worker/src/handoff.rs",
        "    if row.lease_ms.unwrap_or(0).saturating_sub(ports.now_ms()) < needed_ms {",
        "    if !SEEDED && row.lease_ms.unwrap_or(0).saturating_sub(ports.now_ms()) < needed_ms {",
    ),
    (
        "Retry without an outcome",
        "functions/worker/src/handoff.rs",
        "    let only_if = NotStarted { ours: Ours { attempt: row.attempt, token }, run };",
        "    if SEEDED {
        return follow_ended(ports, settings, row, &outcome).await.map(|_| ());
    }
    let only_if = NotStarted { ours: Ours { attempt: row.attempt, token }, run };",
    ),
    (
        "a callback is believed",
        "functions/worker/src/check.rs",
        "        (CheckCause::Callback, Some(task)) => poll(ports, settings, &check, &row, &task).await,",
        "        (CheckCause::Callback, Some(_)) if SEEDED => {
            ended(ports, settings, &check, &row, Some((ErrorClass::Transient, \"it says so\".into()))).await
        }
        (CheckCause::Callback, Some(task)) => poll(ports, settings, &check, &row, &task).await,",
    ),
    (
        "a resume acts without the lease",
        "functions/worker/src/check.rs",
        "    let Some(row) = renew(ports, settings, &check, &row, seen_lease_ms).await? else {
        return Ok(Note::NotLeader);
    };
    resume_now(ports, settings, check, row).await",
        "    let row = if SEEDED {
        row
    } else {
        let Some(row) = renew(ports, settings, &check, &row, seen_lease_ms).await? else {
            return Ok(Note::NotLeader);
        };
        row
    };
    resume_now(ports, settings, check, row).await",
    ),
    (
        "a resume overlooks an outcome that came meanwhile",
        "functions/worker/src/check.rs",
        "    if let Some(note) = settled_already(ports, settings, &check, &view).await? {
        return Ok(note);
    }
    let won = row;",
        "    if !SEEDED && let Some(note) = settled_already(ports, settings, &check, &view).await? {
        return Ok(note);
    }
    let won = row;",
    ),
    (
        "a resume goes on after it lost the lease",
        "functions/worker/src/check.rs",
        "    if row.run != won.run {",
        "    if row.run != won.run && !(SEEDED && row.task.is_some()) {",
    ),
    (
        "a cancel is believed unseen",
        "functions/worker/src/check.rs",
        "    let _ = ports.cancel(&row.lane, task).await;",
        "    let _ = ports.cancel(&row.lane, task).await;
    if SEEDED {
        return ended(ports, settings, check, row, None).await;
    }",
    ),
    (
        "a chain of checks that multiplies",
        "functions/worker/src/check.rs",
        "    send_one(ports, settings.write_repeats, Message::Check(next), poll_ms).await?;",
        "    if SEEDED {
        send_one(ports, settings.write_repeats, Message::Check(next.clone()), poll_ms).await?;
    }
    send_one(ports, settings.write_repeats, Message::Check(next), poll_ms).await?;",
    ),
    (
        "a repeat's rejection is believed",
        "functions/worker/src/resolve.rs",
        "        Submit::Rejected { .. } | Submit::Unknown => again(ports, settings, check, &row, 1).await,",
        "        Submit::Rejected { .. } if SEEDED => not_accepted(ports, settings, &check, &row).await,
        Submit::Rejected { .. } | Submit::Unknown => again(ports, settings, check, &row, 1).await,",
    ),
    (
        "a lost submit without recovery is tried again",
        "functions/worker/src/resolve.rs",
        "        Recovery::None => {
            give_up(",
        "        Recovery::None if SEEDED => not_accepted(ports, settings, &check, &row).await,
        Recovery::None => {
            give_up(",
    ),
    (
        "success before QA",
        "functions/finisher/src/lib.rs",
        "    send_one(ports, settings.write_repeats, Message::Qa(qa), 0).await?;
    let succeed =
        JobTransition::Succeed { ours: Ours { attempt: row.attempt, token }, now_ms: ports.now_ms() };",
        "    let succeed =
        JobTransition::Succeed { ours: Ours { attempt: row.attempt, token }, now_ms: ports.now_ms() };
    if SEEDED {
        settle::job(ports, settings.write_repeats, &row.key, &succeed).await?;
    }
    send_one(ports, settings.write_repeats, Message::Qa(qa), 0).await?;",
    ),
    (
        "the outcome after QA",
        "functions/finisher/src/lib.rs",
        "            let outcome = OutcomeRow::stored(end_of(&row, ports.now_ms()), &asset);
            record(ports, settings, &row, outcome).await",
        "            let outcome = OutcomeRow::stored(end_of(&row, ports.now_ms()), &asset);
            if SEEDED {
                succeed(ports, settings, &row, &outcome).await?;
            }
            record(ports, settings, &row, outcome).await",
    ),
    (
        "a barred output is rendered again",
        "functions/finisher/src/lib.rs",
        "        Saved::Barred { reason } => Ok(Some(Ending::Barred(reason))),",
        "        Saved::Barred { reason } if SEEDED => {
            Ok(Some(Ending::Failed(bad(ErrorClass::BadOutput, &reason, Cost::Paid))))
        }
        Saved::Barred { reason } => Ok(Some(Ending::Barred(reason))),",
    ),
    (
        "a claim to be cancelled is not given back",
        "functions/rollback/src/lib.rs",
        "    let transition = if row.cancel_requested {",
        "    let transition = if !SEEDED && row.cancel_requested {",
    ),
    (
        "resumes used up mean failed",
        "functions/rollback/src/lib.rs",
        "    let Some(task) = row.task.clone() else {
        let reason = \"looking at it failed too often, and nobody can tell whether it was accepted\";",
        "    let Some(task) = row.task.clone() else {
        let reason = \"looking at it failed too often, and nobody can tell whether it was accepted\";
        if SEEDED {
            let class = ErrorClass::Transient;
            let failure =
                Failure { class, reason: reason.into(), counted: true, retry_at_ms: None, cost: Cost::AtRisk };
            return record(ports, settings, row, OutcomeRow::failed(end_of(row, ports.now_ms()), failure)).await;
        }",
    ),
    (
        "requeue of a held job puts no outcome first",
        "shared/protocol/src/steps/requeue.rs",
        "        Status::Failed | Status::Cancelled | Status::Succeeded => {}",
        "        Status::Held if SEEDED => {}
        Status::Failed | Status::Cancelled | Status::Succeeded => {}",
    ),
    (
        "a complete episode's head is left open",
        "shared/protocol/src/steps/parent.rs",
        "    if done == usize::from(FRAMES) { Verdict::Complete } else { Verdict::Open }",
        "    if !SEEDED && done == usize::from(FRAMES) { Verdict::Complete } else { Verdict::Open }",
    ),
    (
        "a failed episode keeps its story",
        "shared/protocol/src/steps/parent.rs",
        "    ours.then(|| Part::Story(story.key.clone(), transition))",
        "    (ours && !SEEDED).then(|| Part::Story(story.key.clone(), transition))",
    ),
];
