// The saves that go on in threads of this process: it ends after them, by exit() as well.
#pragma once

namespace fsdp::checkpoint {

// While one lives, exit() waits: made before a save's thread starts, and destroyed as its last act. Any thread.
class ProcessSave {
 public:
  ProcessSave();
  ~ProcessSave();
  ProcessSave(const ProcessSave&) = delete;
  ProcessSave& operator=(const ProcessSave&) = delete;
};

}  // namespace fsdp::checkpoint
