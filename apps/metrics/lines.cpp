#include "metrics/lines.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainer {

LineReader::LineReader(const std::filesystem::path& path)
    : name_(fmt::format("'{}'", path.string())), file_(fsdp::files::open_regular(path, name_)) {}

bool LineReader::fill() {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t size = std::min(kPiece, file_.bytes - read_);
  if (size <= 0) return false;
  buffer_.resize(static_cast<size_t>(size));
  fsdp::files::read_exactly(file_, read_, buffer_.data(), buffer_.size(), name_);
  read_ += size;
  used_ = 0;
  return true;
}

bool LineReader::next() {
  text_.clear();
  is_too_long_ = has_end_ = false;
  const int64_t begin = at_;
  while (!has_end_ && (used_ < buffer_.size() || fill())) {
    const size_t newline = buffer_.find('\n', used_);
    has_end_ = newline != std::string::npos;
    const size_t end = has_end_ ? newline : buffer_.size();
    is_too_long_ = is_too_long_ || text_.size() + (end - used_) > kLongestLine;
    if (is_too_long_) {
      text_.clear();
    } else {
      text_.append(buffer_, used_, end - used_);
    }
    at_ += static_cast<int64_t>(end - used_) + (has_end_ ? 1 : 0);
    used_ = end + (has_end_ ? 1 : 0);
  }
  if (at_ == begin) return false;
  ++number_;
  return true;
}

}  // namespace trainer
