#include "metrics/session_end.h"

#include <cstdint>
#include <fstream>
#include <string>

#include "metrics/hyperparameters.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

// As tensorboard.h has them: a length and its checksum before an event, a checksum after it.
constexpr uint64_t kBeforeEvent = 12, kAfterEvent = 4;
constexpr uint64_t kLongestEnd = 4096;

struct LastRecord {
  uint64_t offset = 0, bytes = 0;  // of the file
};

// The last of the whole records.
LastRecord last_record(std::ifstream& file, uint64_t file_bytes) {
  LastRecord last;
  uint64_t next = 0;
  while (file_bytes - next >= kBeforeEvent + kAfterEvent) {
    unsigned char header[8];
    file.seekg(static_cast<std::streamoff>(next));
    if (!file.read(reinterpret_cast<char*>(header), sizeof header)) break;
    uint64_t event_bytes = 0;
    for (int i = 7; i >= 0; --i) event_bytes = event_bytes << 8 | header[i];
    if (event_bytes > file_bytes - next - kBeforeEvent - kAfterEvent) break;
    last = {.offset = next, .bytes = kBeforeEvent + event_bytes + kAfterEvent};
    next += last.bytes;
  }
  file.clear();
  return last;
}

bool is_end(std::ifstream& file, const LastRecord& record) {
  if (record.bytes == 0 || record.bytes > kLongestEnd) return false;
  std::string bytes(record.bytes, '\0');
  file.seekg(static_cast<std::streamoff>(record.offset));
  return file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) &&
         bytes.find(kSessionEndTag) != std::string::npos;
}

}  // namespace

void take_back_ends(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const bool is_ours = entry.path().filename().string().starts_with("events.out.tfevents.");
    if (!is_ours || entry.is_symlink(ignored) || !entry.is_regular_file(ignored)) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const uint64_t bytes = entry.file_size(ignored);
    if (!file || ignored) continue;
    const LastRecord last = last_record(file, bytes);
    if (last.offset + last.bytes == bytes && is_end(file, last)) fs::resize_file(entry.path(), last.offset, ignored);
  }
}

}  // namespace trainer
