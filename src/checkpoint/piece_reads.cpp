#include "checkpoint/piece_reads.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/rank_thread.h"

namespace fsdp::checkpoint {

namespace {

// Per rank. Both take short parts that lie behind one another, so that the system sees one reader of the file, and
// reads ahead for it in large pieces.
constexpr size_t kThreads = 2;

// A block of a file, and what is wanted of it.
struct BlockRead {
  const ShardFile* file;
  const ShardFile::Entry* entry;
  int64_t number;
  std::vector<const ShardFile::Wanted*> wanted;
};

// In the order of the files' bytes.
std::vector<BlockRead> blocks_read(const std::vector<PieceRead>& reads) {
  std::vector<BlockRead> all;
  for (const auto& [file, entry, bytes] : reads) {
    for (int64_t at = bytes.begin; at < bytes.end();) {
      const int64_t number = at / kHashBlockBytes;
      all.push_back({file, entry, number, {&bytes}});
      at = bytes.next((number + 1) * kHashBlockBytes);
    }
  }
  const auto place_of = [](const BlockRead& one) { return one.entry->begin + one.number * kHashBlockBytes; };
  std::ranges::sort(all, [&](const BlockRead& a, const BlockRead& b) {
    return a.file == b.file ? place_of(a) < place_of(b) : a.file->name() < b.file->name();
  });
  std::vector<BlockRead> blocks;
  for (BlockRead& one : all) {
    const bool is_same = !blocks.empty() && blocks.back().entry == one.entry && blocks.back().number == one.number;
    if (is_same) {
      blocks.back().wanted.push_back(one.wanted[0]);
    } else {
      blocks.push_back(std::move(one));
    }
  }
  return blocks;
}

}  // namespace

std::vector<std::string> read_and_check(const std::vector<PieceRead>& reads) {
  const std::vector<BlockRead> blocks = blocks_read(reads);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::map<size_t, std::string> problems;  // by the block
  const auto work = [&] {
    for (size_t i = next++; i < blocks.size(); i = next++) {
      const auto& [file, entry, number, wanted] = blocks[i];
      std::string problem;
      try {
        problem = file->read_block(*entry, number, wanted);
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
    for (size_t i = 1; i < std::min(kThreads, blocks.size()); ++i) others.emplace_back(of_this_rank(work));
    work();
  }
  std::vector<std::string> in_order;
  for (auto& [block, problem] : problems) in_order.push_back(std::move(problem));
  return in_order;
}

}  // namespace fsdp::checkpoint
