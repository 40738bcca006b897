// Writes pickles of protocol 2, as torch.save does: what torch.load(weights_only=True) takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fsdp::formats {

// Each call appends instructions, as the stack machine of pickles has them: a value is pushed; a container takes the
// values since its mark. The caller keeps their order. No value is kept in the memo, so none is shared.
class PickleWriter {
 public:
  PickleWriter();

  void none();
  void boolean(bool value);
  void number(int64_t value);
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);
  void numbers(std::span<const int64_t> values);  // a tuple

  void mark();
  void tuple();  // of what follows the last mark
  void empty_tuple();
  void empty_list();
  void append();  // the last value to the list before it
  void empty_dict();
  void set_item();    // the last value, under the one before it, of the dict before these
  void persistent();  // what the last value names
  void call();        // what is before the last value, a tuple of arguments
  void make();        // an object of the class before the last value, a tuple of arguments
  void build();       // sets the last value on the object before it

  std::string finish();

 private:
  std::string bytes_;
};

}  // namespace fsdp::formats
