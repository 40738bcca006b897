// The words in which the order of a step and the collectives between ranks speak of one exchange.
#pragma once

namespace fsdp {

// The order in which the ranks begin an operation on their units: one that they have in common, which the watchdog
// checks where the backend needs it, or any.
enum class Order { Common, Any };

// The answer to the question: can this rank wait for the reduction under way before it goes on?
enum class Begun {
  Yes,         // yes: every rank has begun it
  HeldBack,    // no: this rank has not sent its part, since other reductions go out before
  PeerStalls,  // no: a peer has not begun it, and waits for others itself, or its backward is over
};

// How a write treats the ranks that still read the shard. Wait: it waits for them, and all ranks write their units in
// one order. WaitInAnyOrder: it waits, and they write them in any. Ask: it waits for nothing that a peer has yet to
// compute.
enum class Readers { Wait, WaitInAnyOrder, Ask };

}  // namespace fsdp
