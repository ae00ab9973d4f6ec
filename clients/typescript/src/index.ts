/** Client of loopwarden's guard. Adapters of frameworks are modules of their own: `@loopwarden/client/ai-sdk` and so on. */

export { appended, around, type CallOptions, type GuardedCall, type Shape } from './around.js';
export { canonical, Digits, NotJson, parse } from './canonical.js';
export { Commands, type Question, type Taken } from './commands.js';
export type { Phase } from './deciding.js';
export { readDecision, type Decision, type Placement } from './decision.js';
export type { AgentEvent } from './event.js';
export type { Ability, Caller } from './caller.js';
export { Guard, type GuardOptions } from './guard.js';
export { callSha256, canonicalArgs, fingerprint, identityText, type Identity } from './identity.js';
export { timeMs, type Who } from './verdict.js';
export { VERSION } from './version.js';
