#include "fsdp-convert/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "console/units.h"
#include "files/printable.h"
#include "formats/element_types.h"

namespace converter {

namespace formats = fsdp::formats;

namespace {

std::string shown_name(const formats::StoredTensor& tensor) {
  const std::string text = fsdp::files::printable(tensor.name.text());
  return tensor.name.role == formats::Role::Buffer ? text + " (buffer)" : text;
}

}  // namespace

std::string list_of_tensors(const formats::Source& source, const std::string& name) {
  size_t widest_name = 0, widest_shape = 0;
  std::vector<std::string> names, shapes;
  int64_t bytes = 0;
  for (const formats::StoredTensor& tensor : source.tensors()) {
    names.push_back(shown_name(tensor));
    shapes.push_back(fmt::format("{}", tensor.shape));
    widest_name = std::max(widest_name, names.back().size());
    widest_shape = std::max(widest_shape, shapes.back().size());
    if (!tensor.same_as) bytes += tensor.bytes();
  }
  const auto& facts = source.facts();
  std::string text = fmt::format(
      "{}: {}, {} of {}", fsdp::files::printable(name), formats::entry_of(source.format()).description,
      trainer::counted(static_cast<int64_t>(names.size()), "tensor"), trainer::short_bytes(static_cast<size_t>(bytes)));
  text += facts.step > 0 ? fmt::format(", step {}\n", facts.step) : "\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const formats::StoredTensor& tensor = source.tensors()[i];
    const std::string end = tensor.same_as ? fmt::format("the same as {}", names[*tensor.same_as])
                                           : trainer::short_bytes(static_cast<size_t>(tensor.bytes()));
    text += fmt::format("  {:<{}}  {:<8}  {:<{}}  {}\n", names[i], widest_name, formats::names_of(tensor.type).dtype,
                        shapes[i], widest_shape, end);
  }
  if (facts.left_out > 0) {
    text += fmt::format("  and {} that are no tensors of a model or its optimizer's state\n",
                        trainer::counted(static_cast<int64_t>(facts.left_out), "value"));
  }
  return text;
}

}  // namespace converter
