#include "checkpoint/piece_reads.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

namespace fsdp::checkpoint {

namespace {

// Per rank. Both take short parts that lie behind one another, so that the system sees one reader of the file, and
// reads ahead for it in large pieces.
constexpr size_t kThreads = 2;

// Hashed blocks, or what is read of them.
std::vector<PieceRead> parts_of(const std::vector<PieceRead>& reads) {
  std::vector<PieceRead> parts;
  for (const PieceRead& read : reads) {
    for (int64_t begin = read.begin, all = read.begin + read.bytes; begin < all;) {
      const int64_t end = std::min(all, (begin / kHashBlockBytes + 1) * kHashBlockBytes);
      char* into = read.into == nullptr ? nullptr : read.into + (begin - read.begin);
      parts.push_back({read.file, read.entry, begin, end - begin, into});
      begin = end;
    }
  }
  std::ranges::sort(parts, [](const PieceRead& a, const PieceRead& b) {
    return std::tuple(a.file->name(), a.entry->begin + a.begin) < std::tuple(b.file->name(), b.entry->begin + b.begin);
  });
  return parts;
}

}  // namespace

std::vector<std::string> read_and_check(const std::vector<PieceRead>& reads) {
  const std::vector<PieceRead> parts = parts_of(reads);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::map<size_t, std::string> problems;  // by the part
  const auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++) {
      const auto& [file, entry, begin, bytes, into] = parts[i];
      std::string problem;
      try {
        problem = file->read(*entry, begin, bytes, into);
      } catch (const std::exception& error) {
        problem = error.what();
      }
      if (problem.empty()) continue;
      const std::lock_guard lock(mutex);
      problems[i] = std::move(problem);
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < std::min(kThreads, parts.size()); ++i) others.emplace_back(work);
    work();
  }
  std::vector<std::string> in_order;
  for (auto& [part, problem] : problems) in_order.push_back(std::move(problem));
  return in_order;
}

}  // namespace fsdp::checkpoint
