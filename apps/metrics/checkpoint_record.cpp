#include "metrics/checkpoint_record.h"

#include <array>

#include "metrics/record_fields.h"

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

constexpr bool kIsAlwaysThere = true, kIsOnlyOfSome = false;
constexpr bool kComesAgain = true, kIsItsOwn = false;

constexpr std::array<Field, 10> kCheckpointFields = {{{"step", "steps", kIsAlwaysThere, kComesAgain},
                                                      {"event", "", kIsAlwaysThere, kComesAgain},
                                                      {"seconds", "s", kIsAlwaysThere, kIsItsOwn},
                                                      {"folder", "", kIsAlwaysThere, kComesAgain},
                                                      {"best", "", kIsAlwaysThere, kComesAgain},
                                                      {"bytes", "bytes", kIsAlwaysThere, kIsItsOwn},
                                                      {"save_seconds", "s", kIsAlwaysThere, kIsItsOwn},
                                                      {"pause_seconds", "s", kIsAlwaysThere, kIsItsOwn},
                                                      {"kept", "", kIsAlwaysThere, kIsItsOwn},
                                                      {"removed", "", kIsOnlyOfSome, kIsItsOwn}}};

}  // namespace

std::span<const Field> checkpoint_fields() { return kCheckpointFields; }

Json to_json(const CheckpointRecord& checkpoint) {
  Json json = {{"step", checkpoint.step},
               {"event", kCheckpointEvent},
               {"seconds", checkpoint.seconds},
               {"folder", checkpoint.folder},
               {"best", checkpoint.best},
               {"bytes", checkpoint.bytes},
               {"save_seconds", checkpoint.save_seconds},
               {"pause_seconds", checkpoint.pause_seconds},
               {"kept", checkpoint.kept}};
  if (!checkpoint.removed.empty()) json["removed"] = checkpoint.removed;
  return json;
}

CheckpointRecord checkpoint_from(const Json& record) {
  CheckpointRecord checkpoint{.step = record.at("step")};
  read_field(record, "seconds", checkpoint.seconds);
  read_field(record, "folder", checkpoint.folder);
  read_field(record, "best", checkpoint.best);
  read_field(record, "bytes", checkpoint.bytes);
  read_field(record, "save_seconds", checkpoint.save_seconds);
  read_field(record, "pause_seconds", checkpoint.pause_seconds);
  read_field(record, "kept", checkpoint.kept);
  read_field(record, "removed", checkpoint.removed);
  return checkpoint;
}

}  // namespace trainer
