// Memory that the processes of one host share: an anonymous file (memfd) and its mappings.
//
// Not POSIX shared memory: that has a size limit of its own (/dev/shm), and a name that a killed job leaves behind. An
// anonymous file is gone with the last process that has it open or mapped. A peer opens it through /proc/<pid>/fd/<n>,
// so the two numbers are all that has to travel.
// Bytes are granted before they are touched: a refusal is an Error here, and not a SIGBUS in the midst of a step.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace fsdp::collectives::shm {

// An open file. Movable; closes it.
class MemoryFile {
 public:
  // A new one, which is empty: it grows as bytes of it are granted.
  static MemoryFile create();
  // A peer's. `owner` says whose, for the message.
  static MemoryFile open(pid_t pid, int descriptor, int owner);
  MemoryFile(MemoryFile&& other) noexcept;
  ~MemoryFile();

  int descriptor() const { return descriptor_; }
  // Makes room for these bytes. Throws Error, with nothing granted, when the machine, a control group or a limit on
  // files has none. Ranks that ask at the same time go on in steps, so that together they do not take more than there
  // is; no rank waits for another.
  void grant(size_t offset, size_t bytes);
  // The pages that lie within these bytes are zero again, and take no memory.
  void take_back(size_t offset, size_t bytes);

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  void allocate(size_t offset, size_t bytes);

  int descriptor_;
};

enum class Access { None, Read, Write };

// A file's bytes from the first on, in this process, those included that it does not have yet; they may be touched when
// they are granted. Movable; unmaps them. Outlives the open file.
class Mapping {
 public:
  Mapping(const MemoryFile& file, size_t bytes, Access access);
  Mapping(Mapping&& other) noexcept;
  ~Mapping();

  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  void allow(Access access);

 private:
  char* base_;
  size_t bytes_;
};

}  // namespace fsdp::collectives::shm
