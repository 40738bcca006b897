// Memory that the processes of one host share: a file and its mappings. The file is anonymous memory (memfd), or lies
// in the folder that a model is offloaded to.
//
// Not POSIX shared memory: that has a size limit of its own (/dev/shm), and a name that a killed job leaves behind. A
// file without a name is gone with the last process that has it open or mapped. A peer opens it through
// /proc/<pid>/fd/<n>, so the two numbers are all that has to travel.
// Bytes are granted before they are touched: a refusal is an Error here, and not a SIGBUS in the midst of a step.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "files/reading.h"
#include "memory/offload_folder.h"

namespace fsdp::memory {

inline constexpr size_t kMostFileBytes = size_t{1} << 43;  // less than any usual file system's largest file

struct FileOnDisk {
  std::shared_ptr<const files::Descriptor> file;
  std::shared_ptr<BackgroundReads> reads;
};

// An open file. Movable; closes it.
class MemoryFile {
 public:
  using Folder = std::shared_ptr<const OffloadFolder>;

  // A new one, which is empty: it grows as bytes of it are granted. In `folder`; none: memory.
  static MemoryFile create(Folder folder = {});
  // A peer's, which was made in its `folder`. `owner` says whose, for the message.
  static MemoryFile open(pid_t pid, int descriptor, int owner, Folder folder = {});

  // A part of it as a file of its own, from a byte on that is a multiple of a page.
  MemoryFile part(size_t first_byte) const;

  int descriptor() const { return file_->number(); }
  size_t first_byte() const { return first_byte_; }  // of the open file, where this begins
  // To be kept by those who go on asking things of the file; none where it is memory.
  std::optional<FileOnDisk> on_disk() const {
    return folder_ ? std::optional(FileOnDisk{file_, folder_->reads()}) : std::nullopt;
  }
  // Makes room for these bytes. Throws Error, with nothing granted, when the disk, or the machine, a control group or a
  // limit on files, has none. Ranks that ask for memory at the same time go on in steps, so that together they do not
  // take more than there is; no rank waits for another.
  void grant(size_t offset, size_t bytes);
  // The pages that lie within these bytes are zero again, and take no room.
  void take_back(size_t offset, size_t bytes);

 private:
  MemoryFile(files::Descriptor file, Folder folder)
      : file_(std::make_shared<const files::Descriptor>(std::move(file))), folder_(std::move(folder)) {}
  void grant_memory(size_t offset, size_t bytes);
  void allocate(size_t offset, size_t bytes);

  std::shared_ptr<const files::Descriptor> file_;
  Folder folder_;
  size_t first_byte_ = 0;
};

enum class Access { None, Read, Write };

// A file's bytes from `offset` on, a multiple of a page, in this process, those included that it does not have yet;
// they may be touched when they are granted. Movable; unmaps them. Outlives the open file.
class Mapping {
 public:
  Mapping(const MemoryFile& file, size_t bytes, Access access, size_t offset = 0);
  Mapping(Mapping&& other) noexcept;
  ~Mapping();

  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  void allow(Access access);

 private:
  char* base_;
  size_t bytes_;
};

}  // namespace fsdp::memory
