#include "formats/pickle_reader.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "files/printable.h"
#include "formats/pickle_codes.h"

namespace fsdp::formats {

namespace {

constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr size_t kLongestGlobal = 1024;
constexpr Pickle::Id kNoValue = std::numeric_limits<Pickle::Id>::max();

}  // namespace

// Runs a pickle's instructions, each of which makes one value at most.
class PickleMachine {
 public:
  using Id = Pickle::Id;
  using Kind = Pickle::Kind;

  PickleMachine(std::string bytes, const std::string& name, bool (*is_allowed)(std::string_view))
      : name_(name), is_allowed_(is_allowed) {
    pickle_.bytes_ = std::make_unique<const std::string>(std::move(bytes));
    left_ = *pickle_.bytes_;
  }

  Pickle run() {
    check(static_cast<int64_t>(left_.size()) <= kMostPickleBytes, "it is larger than any that PyTorch writes");
    while (true) {
      const auto code = static_cast<uint8_t>(take(1)[0]);
      if (code == pickle::kStop) break;
      if (!makes_value(code) && !makes_container(code) && !uses_memo(code)) changes_stack(code);
    }
    check(stack_.size() == 1 && marks_.empty(), "it does not end with one value");
    pickle_.root_ = stack_[0];
    return std::move(pickle_);
  }

 private:
  // Numbers, texts and names. False for other codes.
  bool makes_value(uint8_t code) {
    switch (code) {
      case pickle::kNone:
        return push({});
      case pickle::kNewTrue:
      case pickle::kNewFalse:
        return push({.kind = Kind::Bool, .number = code == pickle::kNewTrue});
      case pickle::kBinInt:
        return push({.kind = Kind::Int, .number = number<int32_t>()});
      case pickle::kBinInt1:
        return push({.kind = Kind::Int, .number = number<uint8_t>()});
      case pickle::kBinInt2:
        return push({.kind = Kind::Int, .number = number<uint16_t>()});
      case pickle::kLong1:
        return push({.kind = Kind::Int, .number = long_number()});
      case pickle::kBinFloat:
        return push({.kind = Kind::Float, .real = real()});
      case pickle::kBinUnicode:
        return push({.kind = Kind::Text, .text = take(number<uint32_t>())});
      case pickle::kShortBinUnicode:
        return push({.kind = Kind::Text, .text = take(number<uint8_t>())});
      case pickle::kBinUnicode8:
        return push({.kind = Kind::Text, .text = take(number<uint64_t>())});
      case pickle::kShortBinString:  // of Python 2
        return push({.kind = Kind::Text, .text = take(number<uint8_t>())});
      case pickle::kBinString:
        return push({.kind = Kind::Text, .text = take(number<uint32_t>())});
      case pickle::kShortBinBytes:
        return push({.kind = Kind::Bytes, .text = take(number<uint8_t>())});
      case pickle::kBinBytes:
        return push({.kind = Kind::Bytes, .text = take(number<uint32_t>())});
      case pickle::kGlobal: {
        const std::string_view module = line();
        return push_global(module, line());
      }
      case pickle::kStackGlobal: {
        const Id name = pop(), module = pop();
        check(is(name, Kind::Text) && is(module, Kind::Text), "a name in it is no text");
        return push_global(pickle_.at(module).text, pickle_.at(name).text);
      }
      default:
        return false;
    }
  }

  bool makes_container(uint8_t code) {
    switch (code) {
      case pickle::kEmptyTuple:
        return push({.kind = Kind::Tuple});
      case pickle::kEmptyList:
      case pickle::kEmptySet:
        return push({.kind = Kind::List});
      case pickle::kEmptyDict:
        return push({.kind = Kind::Dict});
      case pickle::kTuple:
        return push({.kind = Kind::Tuple, .items = pop_to_mark()});
      case pickle::kTuple1:
      case pickle::kTuple2:
      case pickle::kTuple3:
        return push({.kind = Kind::Tuple, .items = pop_last(code - pickle::kTuple1 + 1u)});
      case pickle::kAppend:
        return add(pop_last(1), Kind::List, 1);
      case pickle::kAppends:
      case pickle::kAddItems:
        return add(pop_to_mark(), Kind::List, 1);
      case pickle::kSetItem:
        return add(pop_last(2), Kind::Dict, 2);
      case pickle::kSetItems:
        return add(pop_to_mark(), Kind::Dict, 2);
      case pickle::kBinPersId:
        return push({.kind = Kind::Persistent, .items = pop_last(1)});
      case pickle::kReduce:
      case pickle::kNewObj:
        return call();
      case pickle::kBuild:
        return build();
      default:
        return false;
    }
  }

  bool uses_memo(uint8_t code) {
    switch (code) {
      case pickle::kBinPut:
        return put(number<uint8_t>());
      case pickle::kLongBinPut:
        return put(number<uint32_t>());
      case pickle::kMemoize:
        return put(memo_.size());
      case pickle::kBinGet:
        return get(number<uint8_t>());
      case pickle::kLongBinGet:
        return get(number<uint32_t>());
      default:
        return false;
    }
  }

  void changes_stack(uint8_t code) {
    switch (code) {
      case pickle::kProto:
        check(number<uint8_t>() <= 5, "it has an unknown pickle protocol");
        return;
      case pickle::kFrame:
        check(number<uint64_t>() <= left_.size(), "it ends too early");
        return;
      case pickle::kMark:
        marks_.push_back(stack_.size());
        return;
      case pickle::kPop:
        pop();
        return;
      case pickle::kPopMark:
        pop_to_mark();
        return;
      case pickle::kDup:
        stack_.push_back(top());
        return;
      default:
        FSDP_CHECK(false, "{} is damaged, or no file of PyTorch's: its pickle has the instruction {:#04x} at byte {}",
                   name_, code, pickle_.bytes_->size() - left_.size() - 1);
    }
  }

  void check(bool condition, const char* what) const {
    FSDP_CHECK(condition, "{} is damaged: its pickle is not one of PyTorch's: {} (at byte {})", name_, what,
               pickle_.bytes_->size() - left_.size());
  }

  bool is(Id id, Kind kind) const { return pickle_.at(id).kind == kind; }

  std::string_view take(uint64_t bytes) {
    check(bytes <= left_.size(), "it ends too early");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  template <typename Number>
  Number number() {
    Number number{};
    take(sizeof number).copy(reinterpret_cast<char*>(&number), sizeof number);
    return number;
  }

  // Little-endian in two's complement, of up to 255 bytes; only numbers that fit into 64 bits.
  int64_t long_number() {
    const std::string_view bytes = take(number<uint8_t>());
    check(bytes.size() <= sizeof(int64_t), "it has a number of more than 64 bits");
    uint64_t bits = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return std::bit_cast<int64_t>(bits);
  }

  double real() {  // big-endian
    return std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()));
  }

  std::string_view line() {
    const size_t end = left_.find('\n');
    check(end != std::string_view::npos, "it ends too early");
    const std::string_view line = take(end);
    take(1);
    return line;
  }

  bool push(Pickle::Value value) {
    check(pickle_.values_.size() < kMostValues, "it has more values than any that PyTorch writes");
    stack_.push_back(static_cast<Id>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    return true;
  }

  bool push_global(std::string_view module, std::string_view name) {
    check(module.size() + name.size() < kLongestGlobal, "it has a name that is too long");
    const std::string& global = pickle_.names_.emplace_back(fmt::format("{}.{}", module, name));
    FSDP_CHECK(is_allowed_(global),
               "{} calls {} of Python, and fsdp-convert runs no code of files. It reads only tensors, and dicts and "
               "lists of them. Load the file where it was made, and save only the tensors.",
               name_, files::printable(global));
    return push({.kind = Kind::Global, .text = global});
  }

  Id top() const {
    check(stack_.size() > floor(), "it takes more values than there are");
    return stack_.back();
  }
  // Values below the last mark are for what takes all after it.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }

  std::vector<Id> pop_last(size_t count) {
    check(stack_.size() - floor() >= count, "it takes more values than there are");
    std::vector<Id> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  std::vector<Id> pop_to_mark() {
    check(!marks_.empty(), "a mark is missing");
    std::vector<Id> items = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  // To the list or dict on top of the stack.
  bool add(const std::vector<Id>& items, Kind kind, size_t each) {
    Pickle::Value& container = pickle_.values_[top()];
    check(container.kind == kind && items.size() % each == 0, "it adds items to what has none");
    check(added_ + items.size() <= kMostValues, "it has more items than any that PyTorch writes");
    added_ += items.size();
    container.items.insert(container.items.end(), items.begin(), items.end());
    return true;
  }

  bool call() {
    std::vector<Id> items = pop_last(2);
    check(is(items[0], Kind::Global) && is(items[1], Kind::Tuple), "it calls what has no name");
    if (pickle_.at(items[0]).text != kOrderedDict) return push({.kind = Kind::Call, .items = std::move(items)});
    check(pickle_.at(items[1]).items.empty(), "it makes an OrderedDict of something");
    return push({.kind = Kind::Dict});
  }

  // Attributes of an OrderedDict are not wanted: a state dict has versions of modules there.
  bool build() {
    const Id state = pop();
    Pickle::Value& target = pickle_.values_[top()];
    check(target.kind == Kind::Call || target.kind == Kind::Dict, "it sets attributes of what has none");
    if (target.kind == Kind::Call && target.items.size() == 2) target.items.push_back(state);
    return true;
  }

  bool put(size_t place) {
    check(place < pickle_.bytes_->size(), "its memo has a number that is too large");
    if (place >= memo_.size()) memo_.resize(place + 1, kNoValue);
    memo_[place] = top();
    return true;
  }

  bool get(size_t place) {
    check(place < memo_.size() && memo_[place] != kNoValue, "its memo lacks a value");
    stack_.push_back(memo_[place]);
    return true;
  }

  const std::string& name_;
  bool (*is_allowed_)(std::string_view);
  Pickle pickle_;
  std::string_view left_;
  std::vector<Id> stack_, memo_;
  std::vector<size_t> marks_;  // sizes of the stack
  size_t added_ = 0;
};

Pickle Pickle::read(std::string bytes, const std::string& name, bool (*is_allowed)(std::string_view)) {
  return PickleMachine(std::move(bytes), name, is_allowed).run();
}

std::optional<Pickle::Id> Pickle::find(const Value& dict, std::string_view key) const {
  if (dict.kind != Kind::Dict) return std::nullopt;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const Value& one = at(dict.items[i]);
    if (one.kind == Kind::Text && one.text == key) return dict.items[i + 1];
  }
  return std::nullopt;
}

std::string_view Pickle::called(const Value& value) const {
  return value.kind == Kind::Call ? at(value.items[0]).text : std::string_view();
}

const std::vector<Pickle::Id>& Pickle::arguments(const Value& call) const {
  static const std::vector<Id> none;
  return call.kind == Kind::Call ? at(call.items[1]).items : none;
}

}  // namespace fsdp::formats
