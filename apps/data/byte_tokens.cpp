#include "data/byte_tokens.h"

#include <algorithm>
#include <array>
#include <utility>

namespace data {

namespace {

class ByteTokens final : public TokenSource {
 public:
  explicit ByteTokens(std::shared_ptr<const TextFiles> text) : text_(std::move(text)) {}

  int64_t size() const override { return text_->size(); }
  int64_t limit() const override { return 256; }
  std::string where(int64_t position) const override { return text_->where(position); }
  int64_t written() const override { return text_->written(); }
  void release() const override { text_->release(); }

  void read(int64_t first, std::span<int64_t> tokens) const override {
    std::array<char, 16384> buffer;
    while (!tokens.empty()) {
      const std::span<char> bytes = std::span(buffer).first(std::min(tokens.size(), buffer.size()));
      text_->read(first, bytes);
      for (size_t i = 0; i < bytes.size(); ++i) tokens[i] = static_cast<unsigned char>(bytes[i]);
      tokens = tokens.subspan(bytes.size());
      first += static_cast<int64_t>(bytes.size());
    }
  }

 private:
  std::shared_ptr<const TextFiles> text_;
};

}  // namespace

Tokens byte_tokens(std::shared_ptr<const TextFiles> text) { return std::make_shared<ByteTokens>(std::move(text)); }

}  // namespace data
