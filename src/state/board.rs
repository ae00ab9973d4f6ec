//! The board of a subject as bytes, for sessions, counters and stops alike. The numbers are stored and never reused.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use loopwarden_core::engine::{
    Action, Advice, Board, CommandId, IdentityRecipe, OperatorStop, PlacedBy, Placement, SEPARATOR, Scope, Verdict,
};
use loopwarden_core::event::{EventTime, Reach};
use loopwarden_core::identity::{CallRules, Hash64, Hash128};
use loopwarden_core::policy::Detector;
use serde::{Deserialize, Serialize};

use crate::{StoreError, names::Names};

/// Bits of a stop.
const FAILS_CLOSED: u8 = 1;
const OF_TENANT: u8 = 2;
/// [`SEPARATOR`] as a text, before each of several names.
const SEPARATOR_TEXT: &str = "\u{1f}";

pub(super) fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(format!("head: {what}"))
}

pub(super) fn detector(number: u8) -> Result<Detector, StoreError> {
    Detector::from_number(number).ok_or_else(|| corrupt("unknown detector"))
}

/// Hashes that are always there.
pub(super) type Hashes = Vec<[u8; 8]>;

pub(super) fn pack(hashes: &VecDeque<Hash64>) -> Hashes {
    hashes.iter().map(|hash| hash.0.to_be_bytes()).collect()
}

pub(super) fn unpack(hashes: Hashes) -> VecDeque<Hash64> {
    hashes.into_iter().map(|bytes| Hash64(u64::from_be_bytes(bytes))).collect()
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredBoard<'a> {
    epoch: i64,
    seq: u64,
    #[serde(borrow)]
    verdicts: Vec<StoredVerdict<'a>>,
    seen: Hashes,
}

impl<'a> StoredBoard<'a> {
    pub(super) fn of(board: &'a Board) -> Self {
        Self {
            epoch: board.epoch,
            seq: board.seq,
            verdicts: board.verdicts.iter().map(StoredVerdict::of).collect(),
            seen: pack(&board.seen),
        }
    }

    pub(super) fn into_board(self) -> Result<Board, StoreError> {
        let verdicts = self.verdicts.into_iter().map(StoredVerdict::into_verdict).collect::<Result<_, _>>()?;
        Ok(Board { epoch: self.epoch, seq: self.seq, verdicts, seen: unpack(self.seen) })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredScope<'a> {
    #[serde(borrow)]
    tool: Option<Cow<'a, str>>,
    fingerprint: Option<([u8; 16], StoredRecipe)>,
    only: Cow<'a, [(String, String)]>,
}

/// The numbers of the variants are stored and never reused.
#[derive(Serialize, Deserialize)]
pub(super) enum StoredRecipe {
    Call { args: Names, args_ignored: Names },
    Coarse { args: Names },
    Args,
    Opaque,
    ArgsChosen { args: Names, args_ignored: Names },
}

impl StoredRecipe {
    pub(super) fn of(recipe: &IdentityRecipe) -> Self {
        let names = |names: &Arc<[String]>| Names(Arc::clone(names));
        match recipe {
            IdentityRecipe::Call(rules) => Self::Call { args: names(&rules.args), args_ignored: names(&rules.args_ignored) },
            IdentityRecipe::Coarse(args) => Self::Coarse { args: names(args) },
            IdentityRecipe::Args(rules) if *rules == CallRules::default() => Self::Args,
            IdentityRecipe::Args(rules) => {
                Self::ArgsChosen { args: names(&rules.args), args_ignored: names(&rules.args_ignored) }
            }
            IdentityRecipe::Opaque => Self::Opaque,
        }
    }

    pub(super) fn into_recipe(self) -> IdentityRecipe {
        match self {
            Self::Call { args, args_ignored } => IdentityRecipe::Call(CallRules { args: args.0, args_ignored: args_ignored.0 }),
            Self::Coarse { args } => IdentityRecipe::Coarse(args.0),
            Self::Args => IdentityRecipe::Args(CallRules::default()),
            Self::Opaque => IdentityRecipe::Opaque,
            Self::ArgsChosen { args, args_ignored } => {
                IdentityRecipe::Args(CallRules { args: args.0, args_ignored: args_ignored.0 })
            }
        }
    }
}

impl<'a> StoredScope<'a> {
    fn of(scope: &'a Scope) -> Self {
        Self {
            // Several stand where one does, behind each other: no name holds a separator.
            tool: if scope.tools.is_empty() {
                scope.tool.as_deref().map(Cow::Borrowed)
            } else {
                Some(several(&scope.tools).into())
            },
            fingerprint: scope.fingerprint.as_ref().map(|(hash, recipe)| (hash.0.to_be_bytes(), StoredRecipe::of(recipe))),
            only: scope.only.as_slice().into(),
        }
    }

    fn into_scope(self) -> Scope {
        let names = self.tool.as_deref().and_then(|names| names.strip_prefix(SEPARATOR));
        let tools: Vec<String> = names.into_iter().flat_map(|names| names.split(SEPARATOR)).map(str::to_owned).collect();
        let tool = if tools.is_empty() { self.tool.map(Cow::into_owned) } else { None };
        Scope {
            tool,
            tools,
            fingerprint: self.fingerprint.map(|(hash, recipe)| (Hash128(u128::from_be_bytes(hash)), recipe.into_recipe())),
            only: self.only.into_owned(),
        }
    }
}

fn several(tools: &[String]) -> String {
    tools.iter().flat_map(|tool| [SEPARATOR_TEXT, tool]).collect()
}

/// The numbers of the variants are stored and never reused.
#[derive(Serialize, Deserialize)]
enum StoredPlacement<'a> {
    NextTurn,
    #[serde(borrow)]
    AppendToResult(Option<Cow<'a, str>>),
}

/// The numbers of the variants are stored and never reused.
#[derive(Serialize, Deserialize)]
enum StoredPlacer<'a> {
    Detector(u8),
    /// The last one is made of bits, the lower one of which was a truth value.
    Operator {
        actor: Cow<'a, str>,
        reason: Cow<'a, str>,
        flags: u8,
    },
}

impl<'a> StoredPlacer<'a> {
    fn of(by: &'a PlacedBy) -> Self {
        match by {
            PlacedBy::Detector(detector) => Self::Detector(detector.number()),
            PlacedBy::Operator(stop) => Self::Operator {
                actor: Cow::Borrowed(&stop.actor),
                reason: Cow::Borrowed(&stop.reason),
                flags: u8::from(stop.fails_closed) * FAILS_CLOSED + u8::from(stop.reach == Reach::Tenant) * OF_TENANT,
            },
        }
    }

    fn into_placer(self) -> Result<PlacedBy, StoreError> {
        Ok(match self {
            Self::Detector(number) => PlacedBy::Detector(detector(number)?),
            Self::Operator { flags, .. } if flags > FAILS_CLOSED + OF_TENANT => return Err(corrupt("unknown stop")),
            Self::Operator { actor, reason, flags } => {
                let (actor, reason, fails_closed) = (actor.into_owned(), reason.into_owned(), flags & FAILS_CLOSED != 0);
                let reach = if flags & OF_TENANT == 0 { Reach::All } else { Reach::Tenant };
                PlacedBy::Operator(Box::new(OperatorStop { actor, reason, fails_closed, reach }))
            }
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredVerdict<'a> {
    command_id: [u8; 16],
    action: u8,
    #[serde(borrow)]
    scope: StoredScope<'a>,
    level: u8,
    episode: [u8; 16],
    #[serde(borrow)]
    by: StoredPlacer<'a>,
    message: Cow<'a, str>,
    placement: StoredPlacement<'a>,
    advice: Option<u8>,
    issued_at: i64,
    expires_at: i64,
}

impl<'a> StoredVerdict<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        Self {
            command_id: verdict.command_id.0,
            action: match verdict.action {
                Action::Nudge => 0,
                Action::Block => 1,
                Action::Unblock => 2,
            },
            scope: StoredScope::of(&verdict.scope),
            level: verdict.level,
            episode: verdict.episode.0,
            by: StoredPlacer::of(&verdict.by),
            message: Cow::Borrowed(&verdict.message),
            placement: match &verdict.placement {
                Placement::NextTurn => StoredPlacement::NextTurn,
                Placement::AppendToResult { call_id } => StoredPlacement::AppendToResult(call_id.as_deref().map(Cow::Borrowed)),
            },
            advice: verdict.advice.map(Advice::number),
            issued_at: verdict.issued_at.0,
            expires_at: verdict.expires_at.0,
        }
    }

    fn into_verdict(self) -> Result<Verdict, StoreError> {
        Ok(Verdict {
            command_id: CommandId(self.command_id),
            action: match self.action {
                0 => Action::Nudge,
                1 => Action::Block,
                2 => Action::Unblock,
                _ => return Err(corrupt("unknown action")),
            },
            scope: self.scope.into_scope(),
            level: self.level,
            episode: CommandId(self.episode),
            by: self.by.into_placer()?,
            message: self.message.into_owned(),
            placement: match self.placement {
                StoredPlacement::NextTurn => Placement::NextTurn,
                StoredPlacement::AppendToResult(call_id) => Placement::AppendToResult { call_id: call_id.map(Cow::into_owned) },
            },
            advice: match self.advice {
                None => None,
                Some(number) => Some(Advice::from_number(number).ok_or_else(|| corrupt("unknown advice"))?),
            },
            issued_at: EventTime(self.issued_at),
            expires_at: EventTime(self.expires_at),
        })
    }
}
