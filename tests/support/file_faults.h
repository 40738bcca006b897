// A layer between a program and the kernel, for tests: it counts the calls that may change a folder, or say that it is
// on the disk, and at one of them it kills, fails, or writes a part.
//
// It is the C library's functions in another form. A test links the layer's files; a program that knows nothing of it
// gets them as a library by LD_PRELOAD, and its plan by FSDP_FILE_FAULTS, a line "name=value" for each member. The
// count is that of a process and all that it forks. Calls through stdio and calls relative to a directory's descriptor
// are not seen; what saves checkpoints makes none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace file_faults {

enum class Call : int32_t {
  Open,
  Write,
  Truncate,
  Sync,
  Close,
  MakeDirectory,
  Rename,
  Exchange,  // of two names
  Remove,    // of a file
  RemoveDirectory,
  Mode,
  Lock,
  Mark,  // no call: `mark` of a test
};
const char* name_of(Call call);

enum class Action : int32_t {
  None,
  KillProcess,   // by SIGKILL, after the call
  KillGroup,     // all processes of its group
  Fail,          // that call alone
  FailFromHere,  // that call and all that come after it: a device that is gone
  FillFromHere,  // those of them that need room: a disk that is full
  WriteHalf,     // of what is to be written, as a file system may
  RemoveFolder,  // and all that lies in it, before the call
  ForbidFolder,  // before the call: nobody may make or remove anything in it, but whoever may do all
};

struct Plan {
  std::string folder = {};  // absolute, that itself and all in it is watched; empty: nothing is
  std::string part = {};    // of what is in it only paths that contain this, where it is not empty
  Action action = Action::None;
  int64_t at = 0;               // which call, counted from 1
  int error = 0;                // of calls that fail, as errno
  bool exchanges_names = true;  // off: as on file systems that cannot
  std::string log = {};         // a file outside of the folder, to which every call is appended; empty: none
};

// For this process and those that it forks from now on. The count begins anew.
void arm(const Plan& plan);
// Writes a Mark to the log.
void mark();

// A call that has succeeded, as it lies in a log.
struct Logged {
  Call call = Call::Mark;
  int32_t file = 0;    // which of the opened: the same number for all calls on it
  int64_t offset = 0;  // Write; the size of a Truncate; flags of an Open
  std::string path = {};
  std::string other = {};  // to where a Rename leads
  std::string bytes = {};  // of a Write
  bool succeeded = true;
};
std::vector<Logged> read_log(const std::string& file);

}  // namespace file_faults
