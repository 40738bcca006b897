// The fallback that sees every operator which takes a sharded parameter, and tells the listeners.
#pragma once

namespace fsdp::interpose {

// Brings the fallback into a program that links this library statically; called when a parameter is attached.
void ensure_fallback();

}  // namespace fsdp::interpose
