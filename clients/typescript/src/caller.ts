/** Who asks a guard, and what it is asked with. */

import type { Decision } from './decision.js';
import type { AgentEvent } from './event.js';

/** What a caller can do with an answer. */
export type Ability = 'deny' | 'context_before' | 'context_after' | 'replace_result' | 'stop';

/** Who asks: the name of an adapter and what it can do. */
export interface Caller {
  name: string;
  can: readonly Ability[];
}

/** What is asked around a call. Neither rejects: without a usable answer the call may run. */
export interface Asking {
  /** Before a call. */
  check(event: AgentEvent, caller: Caller): Promise<Decision>;
  /** After it. */
  observe(event: AgentEvent, caller: Caller): Promise<Decision>;
}
