//! Which calls of a session the swarm stage is to count.

use crate::detect::{CountedAs, brought_nothing};
use crate::engine::effects::{Effects, RecipeForm, SwarmCallKey};
use crate::engine::{context::Context, session::Session};
use crate::event::Call;
use crate::identity::{Arguments, args_identity};
use crate::policy::{Counted, FleetKey, ToolClass, ToolPolicy};

/// A requested call, for `fleet_rate`.
pub(crate) fn count_fleet(
    context: &Context<'_>,
    tool: &ToolPolicy,
    call: &Call<'_>,
    args: &Arguments<'_>,
    sequence: u64,
    session: &Session,
    out: &mut Effects,
) {
    let settings = &context.policy.detectors.fleet_rate;
    let is_off = !settings.mode.is_on() || settings.limit == 0 || settings.window_ms == 0 || !tool.in_fleet_rate;
    let Some(step) = session.history.get(sequence) else { return };
    if is_off || step.counted_as() == CountedAs::Exempt {
        return;
    }
    let (fingerprint, form) = match settings.key {
        FleetKey::Call => (step.call, RecipeForm::Call),
        FleetKey::Args => (args_identity(args, &tool.call).hash128(), RecipeForm::Args),
    };
    let key = SwarmCallKey::Fleet { tenant: context.tenant().to_owned(), fingerprint };
    out.counts.push(context.swarm_call(key, &call.tool, form));
}

/// A call of a swarm that was made, where `swarm_repeat` counts each.
pub(crate) fn count_made(context: &Context<'_>, session: &Session, sequence: u64, out: &mut Effects) {
    if context.policy.detectors.swarm_repeat.count == Counted::All {
        count_swarm(context, session, sequence, out);
    }
}

/// A call of a swarm that has returned, where `swarm_repeat` counts those that brought nothing: a brief handed on brings nothing yet.
pub(crate) fn count_in_vain(context: &Context<'_>, session: &Session, sequence: u64, out: &mut Effects) {
    let policy = context.policy;
    if policy.detectors.swarm_repeat.count != Counted::NoNews {
        return;
    }
    let is_counted = |step| {
        let spawns = policy.tools.get(session.history.tool(step)).class == ToolClass::Spawn;
        spawns || brought_nothing(&session.history, step)
    };
    if session.history.get(sequence).is_some_and(is_counted) {
        count_swarm(context, session, sequence, out);
    }
}

fn count_swarm(context: &Context<'_>, session: &Session, sequence: u64, out: &mut Effects) {
    let Some(step) = session.history.get(sequence) else { return };
    let is_on = context.policy.detectors.swarm_repeat.mode.is_on();
    if !is_on || session.head.swarm_id.is_empty() || !step.was_made() {
        return;
    }
    let key = SwarmCallKey::Swarm {
        tenant: context.tenant().to_owned(),
        swarm_id: session.head.swarm_id.to_string(),
        fingerprint: step.fingerprint,
    };
    out.counts.push(context.swarm_call(key, session.history.tool(step), RecipeForm::of_fingerprint(step)));
}
