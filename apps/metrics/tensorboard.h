// The curves and the hyperparameters of a run for TensorBoard: an event file in its own format, one scalar per number
// of the step's record.
//
// A file is a row of records: length (u64), checksum of the length (u32), a protocol buffer `Event`, its checksum
// (u32), all little-endian; a checksum is a rotated CRC-32C. Source: tensorflow/core/lib/io/record_writer.h and
// tensorflow/core/util/event.proto.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "metrics/hyperparameters.h"
#include "metrics/output_file.h"
#include "metrics/step_record.h"

namespace trainer {

// One thread at a time.
class TensorBoardFile {
 public:
  using Tell = std::function<void(const std::string&)>;

  // Makes `folder`, and in it a file of its own; a run that goes on after `steps_done` has one per process, and
  // TensorBoard forgets what others say of later steps. Throws fsdp::Error when it cannot be written.
  TensorBoardFile(const std::filesystem::path& folder, int64_t steps_done, const Hyperparameters& hyperparameters,
                  Tell tell);

  // The tags are the fields' names, "memory/parameters" for those of a part, "loss/train" and "loss/validation".
  // TensorBoard's scalars are of 32 bits. When
  // the disk is full it tells, and writes no more: RUN/metrics.jsonl has it all.
  void write(const StepRecord& record);
  // The run has ended, after so many steps; the table of hyperparameters says so, and with a failure that it has not
  // finished. One that goes on takes that back.
  void end(int64_t steps_done, bool is_finished);
  // Makes the folder and the file again if they were removed. Throws fsdp::Error where that cannot be.
  void restore();

 private:
  void append(const std::string& event);
  void append_summary(int64_t step, const Message& value);

  std::filesystem::path path_;
  Tell tell_;
  bool is_broken_ = false;
  OutputFile file_;
};

// The bytes of a file for `event`: a protocol buffer.
std::string framed(const std::string& event);

}  // namespace trainer
