#include "data/token_source.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <map>
#include <utility>

namespace data {

namespace {

class Part final : public TokenSource {
 public:
  Part(Tokens tokens, int64_t first, int64_t size) : tokens_(std::move(tokens)), first_(first), size_(size) {}

  int64_t size() const override { return size_; }
  int64_t limit() const override { return tokens_->limit(); }
  void read(int64_t first, std::span<int64_t> tokens) const override { tokens_->read(first_ + first, tokens); }
  void read_several(std::span<const Reading> readings) const override {
    std::vector<Reading> shifted(readings.begin(), readings.end());
    for (Reading& reading : shifted) reading.first += first_;
    tokens_->read_several(shifted);
  }
  std::string where(int64_t position) const override { return tokens_->where(first_ + position); }
  int64_t written() const override { return tokens_->written(); }
  void release() const override { tokens_->release(); }

 private:
  Tokens tokens_;
  int64_t first_, size_;
};

class Joined final : public TokenSource {
 public:
  explicit Joined(std::vector<Tokens> parts) : parts_(std::move(parts)) {
    int64_t end = 0;
    for (const Tokens& part : parts_) {
      ends_.push_back(end += part->size());
      limit_ = std::max(limit_, part->limit());
    }
  }

  int64_t size() const override { return ends_.back(); }
  int64_t limit() const override { return limit_; }

  void read(int64_t first, std::span<int64_t> tokens) const override {
    const Reading reading{first, tokens};
    read_several({&reading, 1});
  }

  void read_several(std::span<const Reading> readings) const override {
    std::map<size_t, std::vector<Reading>> by_part;
    for (auto [first, tokens] : readings) {
      for (size_t part = part_of(first); !tokens.empty(); ++part) {
        const auto count = std::min(tokens.size(), static_cast<size_t>(ends_[part] - first));
        by_part[part].push_back({first - begin_of(part), tokens.first(count)});
        tokens = tokens.subspan(count);
        first += static_cast<int64_t>(count);
      }
    }
    for (const auto& [part, of_part] : by_part) parts_[part]->read_several(of_part);
  }

  std::string where(int64_t position) const override {
    const size_t part = part_of(position);
    return parts_[part]->where(position - begin_of(part));
  }

  int64_t written() const override {
    int64_t newest = 0;
    for (const Tokens& part : parts_) newest = std::max(newest, part->written());
    return newest;
  }

  void release() const override {
    for (const Tokens& part : parts_) part->release();
  }

 private:
  size_t part_of(int64_t position) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
  }
  int64_t begin_of(size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }

  std::vector<Tokens> parts_;
  std::vector<int64_t> ends_;
  int64_t limit_ = 0;
};

}  // namespace

Tokens part_of(Tokens tokens, int64_t first, int64_t size) {
  return std::make_shared<Part>(std::move(tokens), first, size);
}

Tokens joined(std::vector<Tokens> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_shared<Joined>(std::move(parts));
}

TokenSplit split_tokens(const Tokens& tokens, double fraction, int64_t context) {
  const auto held_back = static_cast<int64_t>(static_cast<double>(tokens->size()) * fraction);
  const int64_t training = tokens->size() - held_back;
  if (held_back < context + 1 || training < context + 1) return {.training = tokens, .validation = nullptr};
  return {.training = part_of(tokens, 0, training), .validation = part_of(tokens, training, held_back)};
}

void check_window(const TokenSource& tokens, int64_t context, const std::string& what) {
  if (tokens.size() > context) return;
  throw fsdp::Error(
      fmt::format("{} has {} tokens, and one window of context {} needs {}. Use more text or a smaller "
                  "context.",
                  what, tokens.size(), context, context + 1));
}

}  // namespace data
