/** Leaves a guard alone for a while that has failed several times in a row. */

/** Failures in a row that open the circuit. */
const FAILURES_MAX = 3;
/** How long no request is made then. Milliseconds. */
const OPEN_MS = 5_000;

/** Lets requests through until three in a row have failed; then none for five seconds, and then one that decides. */
export class Breaker {
  #failures = 0;
  #closedAgainMs = 0;
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Whether a request may be made now. Each one that may must report its end. */
  lets(): boolean {
    if (this.#failures < FAILURES_MAX) return true;
    const now = this.#nowMs();
    if (now < this.#closedAgainMs) return false;
    // This one is the trial: the others wait for its end, or for as long again.
    this.#closedAgainMs = now + OPEN_MS;
    return true;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  failed(): void {
    this.#failures += 1;
    if (this.#failures >= FAILURES_MAX) this.#closedAgainMs = this.#nowMs() + OPEN_MS;
  }
}
