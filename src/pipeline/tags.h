// The tags of a pipeline's messages (World::send). Between two ranks messages of one tag keep their order. A list of
// tensors has two tags: one for its first message, and the next for tensors that it has no room for.
#pragma once

namespace fsdp::pipeline {

inline constexpr int kTieTags = 1 << 14;
inline constexpr int kMostStages = kTieTags / 4;
inline constexpr int kMostTies = kTieTags / 2;

// The tag of tensors that go to the stage: inputs, or gradients of its outputs.
constexpr int stage_tag(int stage, bool backward) { return 4 * stage + (backward ? 2 : 0); }
// The tag of gradients of a tied parameter.
constexpr int tie_tag(int tie) { return kTieTags + 2 * tie; }

}  // namespace fsdp::pipeline
