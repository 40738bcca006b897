#include "collectives/shm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "collectives/shm/pages.h"

namespace fsdp::collectives::shm {

namespace {

int protection(Access access) {
  return access == Access::None ? PROT_NONE : access == Access::Read ? PROT_READ : PROT_READ | PROT_WRITE;
}

// What the system could give now. Asked before, because it would not refuse what it does not have: it would kill.
size_t available_bytes() {
  std::ifstream report("/proc/meminfo");
  std::string name;
  for (size_t kibibytes = 0; report >> name >> kibibytes; report.ignore(64, '\n')) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  return std::numeric_limits<size_t>::max();
}

}  // namespace

MemoryFile MemoryFile::create(size_t bytes) {
  MemoryFile file(memfd_create("fsdp", MFD_CLOEXEC));
  FSDP_CHECK(file.descriptor_ >= 0 && ftruncate(file.descriptor_, static_cast<off_t>(bytes)) == 0,
             "shm: a shared memory of {} bytes could not be made: {}. Raise the limits on open files and file sizes "
             "(ulimit -n, -f), or set LaunchOptions::backend to gloo.",
             bytes, std::strerror(errno));
  return file;
}

MemoryFile MemoryFile::open(pid_t pid, int descriptor, int owner) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  MemoryFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  FSDP_CHECK(file.descriptor_ >= 0,
             "shm: the memory of rank {} ({}) could not be opened: {}. Ranks of one host must run as the same user, in "
             "the same PID namespace, and be allowed enough open files (ulimit -n); otherwise set "
             "LaunchOptions::backend to gloo.",
             owner, path, std::strerror(errno));
  return file;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void MemoryFile::grant(size_t offset, size_t bytes) {
  constexpr const char* kAdvice = "Shard over more ranks, make the units smaller, or give the job more memory.";
  const size_t available = available_bytes();
  FSDP_CHECK(bytes <= available, "shm: found {} bytes of free memory, expected {} for shared memory. {}", available,
             bytes, kAdvice);
  int refused = 0;
  do {
    refused = fallocate(descriptor_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (refused == EINTR);
  FSDP_CHECK(refused == 0, "shm: the system refused {} bytes of shared memory: {}. {}", bytes, std::strerror(refused),
             kAdvice);
}

void MemoryFile::take_back(size_t offset, size_t bytes) {
  // Where it cannot be done the memory stays granted, which is no error.
  (void)!fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes));
}

Mapping::Mapping(const MemoryFile& file, size_t bytes, Access access) : base_(nullptr), bytes_(bytes) {
  void* base = mmap(nullptr, bytes, protection(access), MAP_SHARED | MAP_NORESERVE, file.descriptor(), 0);
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

}  // namespace fsdp::collectives::shm
