#include "memory/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "files/memory_room.h"
#include "memory/pages.h"

namespace fsdp::memory {

namespace {

int protection(Access access) {
  return access == Access::None ? PROT_NONE : access == Access::Read ? PROT_READ : PROT_READ | PROT_WRITE;
}

constexpr const char* kAdvice = "Shard over more ranks, make the units smaller, or give the job more memory.";

// So many ranks may do a step at the same time, each of which saw the same room: together they take half of it. Where
// there is little, they leave each other enough for a least step.
constexpr size_t kRanksAtATime = 256;
constexpr size_t kLeastStep = size_t{128} << 10;
constexpr size_t kSpared = kRanksAtATime * kLeastStep;

size_t next_step(size_t left, size_t room) {
  const size_t share = room / (2 * kRanksAtATime);
  const size_t step = share < kHugePageBytes ? std::max(share, kLeastStep) : share / kHugePageBytes * kHugePageBytes;
  return std::min(left, step);
}

// Asked before, because the system would not refuse: it would send SIGXFSZ.
void check_file_size(size_t bytes) {
  rlimit limit{};
  const bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
  FSDP_CHECK(fits,
             "shm: found a limit of {} bytes on the size of files, expected at least {} for shared memory, which is a "
             "file. Raise the limit (ulimit -f), make the units smaller, or set LaunchOptions::backend to gloo.",
             limit.rlim_cur, bytes);
}

}  // namespace

MemoryFile MemoryFile::create(Folder folder) {
  if (folder) {
    files::Descriptor file = folder->new_file();
    return {std::move(file), std::move(folder)};
  }
  MemoryFile file(files::Descriptor(memfd_create("fsdp", MFD_CLOEXEC)), {});
  FSDP_CHECK(file.file_->is_open(),
             "shm: a shared memory could not be made: {}. Raise the limit on open files (ulimit -n), or set "
             "LaunchOptions::backend to gloo.",
             std::strerror(errno));
  return file;
}

MemoryFile MemoryFile::open(pid_t pid, int descriptor, int owner, Folder folder) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  MemoryFile file(files::Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC)), std::move(folder));
  FSDP_CHECK(file.file_->is_open(),
             "shm: the memory of rank {} ({}) could not be opened: {}. Ranks of one host must run as the same user, in "
             "the same PID namespace, and be allowed enough open files (ulimit -n); otherwise set "
             "LaunchOptions::backend to gloo.",
             owner, path, std::strerror(errno));
  return file;
}

MemoryFile MemoryFile::part(size_t first_byte) const {
  MemoryFile part = *this;
  part.first_byte_ += first_byte;
  return part;
}

void MemoryFile::grant(size_t offset, size_t bytes) {
  if (folder_) return folder_->reserve(descriptor(), offset, bytes);
  grant_memory(offset, bytes);
}

void MemoryFile::grant_memory(size_t offset, size_t bytes) {
  check_file_size(first_byte_ + offset + bytes);
  for (size_t granted = 0; granted < bytes;) {
    const size_t left = bytes - granted;
    const files::MemoryRoom room = files::memory_room();
    try {
      FSDP_CHECK(room.bytes >= kSpared && left <= room.bytes - kSpared,
                 "shm: found {} bytes of free memory ({}), expected {} for shared memory, and {} to spare. {}",
                 room.bytes, room.limit, left, kSpared, kAdvice);
      const size_t step = next_step(left, room.bytes);
      allocate(offset + granted, step);
      granted += step;
    } catch (...) {
      take_back(offset, granted);
      throw;
    }
  }
}

void MemoryFile::allocate(size_t offset, size_t bytes) {
  int refused = 0;
  do {
    refused = fallocate(descriptor(), 0, static_cast<off_t>(first_byte_ + offset), static_cast<off_t>(bytes)) == 0
                  ? 0
                  : errno;
  } while (refused == EINTR);
  FSDP_CHECK(refused == 0, "shm: the system refused {} bytes of shared memory: {}. {}", bytes, std::strerror(refused),
             kAdvice);
}

void MemoryFile::take_back(size_t offset, size_t bytes) {
  // Where it cannot be done the memory stays granted, which is no error.
  (void)!fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first_byte_ + offset),
                   static_cast<off_t>(bytes));
}

Mapping::Mapping(const MemoryFile& file, size_t bytes, Access access, size_t offset) : base_(nullptr), bytes_(bytes) {
  void* base = mmap(nullptr, bytes, protection(access), MAP_SHARED | MAP_NORESERVE, file.descriptor(),
                    static_cast<off_t>(file.first_byte() + offset));
  FSDP_CHECK(
      base != MAP_FAILED || errno != ENODEV,
      "offload_directory: its file system does not map files into memory for several writers. Name a folder on a "
      "local disk.");
  FSDP_CHECK(base != MAP_FAILED,
             "shm: {} bytes of address space are not to be had: {}. Raise the limit on virtual memory (ulimit -v), or "
             "set LaunchOptions::backend to gloo.",
             bytes, std::strerror(errno));
  base_ = static_cast<char*>(base);
  if (bytes >= kHugePageBytes) madvise(base_, bytes, MADV_HUGEPAGE);  // a request, not more
}

Mapping::Mapping(Mapping&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}

Mapping::~Mapping() {
  if (base_) munmap(base_, bytes_);
}

void Mapping::allow(Access access) {
  FSDP_INVARIANT(mprotect(base_, bytes_, protection(access)) == 0, "the access to {} bytes could not be changed: {}",
                 bytes_, std::strerror(errno));
}

}  // namespace fsdp::memory
