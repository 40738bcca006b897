// The plan, the counts and the log that the files of the layer share. For them alone: file_faults.h is for tests.
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "support/file_faults.h"

namespace file_faults {

// The count of all processes of a job together.
struct Shared {
  std::atomic<int64_t> calls;
  std::atomic<int32_t> files;
  std::atomic<int32_t> writer;  // whose turn it is to append to the log; 0: nobody's
};

inline constexpr int kMostDescriptors = 4096;

// The layer is called before anything of the program is constructed: this is there from the beginning.
struct State {
  std::array<char, PATH_MAX> folder{};
  size_t folder_size = 0;
  std::array<char, NAME_MAX> part{};
  Action action = Action::None;
  int64_t at = 0;
  int error = 0;
  bool has_no_exchange = false;
  int log = 0;                                                   // its descriptor; 0: none
  Shared* shared = nullptr;                                      // null: not armed
  std::array<std::atomic<int32_t>, kMostDescriptors> file_of{};  // 0: not watched
};
extern constinit State state;

// A call, as it is written to the log.
struct Record {
  Call call;
  int32_t file = 0;
  int64_t offset = 0;
  const char* path = "";
  const char* other = "";
  const char* bytes = nullptr;
};

// One writer at a time, so that the order of the log is that of the calls. A writer that dies ends its job.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

// In the caller's turn.
void append_to_log(const Record& record, long result);

}  // namespace file_faults
