// As CBOR (RFC 8949), which has numbers as they are.
#include <nlohmann/json.hpp>

#include "checkpoint/joined_manifest.h"

namespace fsdp::checkpoint {

namespace {

using CborJson = nlohmann::json;

CborJson cbor_of(const Manifest::Part& part) {
  CborJson box = CborJson::array();
  if (!part.placement.is_whole_box()) {
    for (const layout::Range& range : part.placement.box) box.push_back({range.begin, range.end});
  }
  return {part.offset, part.placement.range.begin, part.placement.range.end, std::move(box)};
}

Manifest::Part part_of_cbor(const CborJson& json, const std::vector<int64_t>& shape) {
  Manifest::Part part{
      .offset = json.at(0).get<int64_t>(),
      .placement = layout::part_of_whole(shape, {json.at(1).get<int64_t>(), json.at(2).get<int64_t>()})};
  const CborJson& box = json.at(3);
  for (size_t i = 0; i < box.size(); ++i) {
    part.placement.box[i] = {box[i].at(0).get<int64_t>(), box[i].at(1).get<int64_t>()};
  }
  return part;
}

CborJson cbor_of(const Manifest::Parameter& parameter) {
  CborJson parts = CborJson::array();
  for (const Manifest::Part& part : parameter.parts) parts.push_back(cbor_of(part));
  return {{"name", parameter.name},       {"shape", parameter.shape},     {"strides", parameter.strides},
          {"tensors", parameter.tensors}, {"scalars", parameter.scalars}, {"parts", std::move(parts)}};
}

Manifest::Parameter parameter_of_cbor(const CborJson& json) {
  Manifest::Parameter parameter{.name = json.at("name").get<std::string>(),
                                .shape = json.at("shape").get<std::vector<int64_t>>(),
                                .strides = json.at("strides").get<std::vector<int64_t>>(),
                                .tensors = json.at("tensors").get<std::map<std::string, std::string>>(),
                                .scalars = json.at("scalars").get<std::map<std::string, double>>()};
  for (const CborJson& part : json.at("parts")) parameter.parts.push_back(part_of_cbor(part, parameter.shape));
  return parameter;
}

}  // namespace

std::string encode(const Manifest& contribution) {
  CborJson parameters = CborJson::array(), buffers = CborJson::array();
  for (const auto& parameter : contribution.parameters) parameters.push_back(cbor_of(parameter));
  for (const auto& buffer : contribution.buffers) buffers.push_back({buffer.name, buffer.shape, buffer.dtype});
  std::string text;
  CborJson::to_cbor(CborJson{{"parameters", std::move(parameters)}, {"buffers", std::move(buffers)}}, text);
  return text;
}

Manifest decode_contribution(const std::string& text) {
  const CborJson json = CborJson::from_cbor(text);
  Manifest manifest;
  for (const CborJson& parameter : json.at("parameters")) manifest.parameters.push_back(parameter_of_cbor(parameter));
  for (const CborJson& buffer : json.at("buffers")) {
    manifest.buffers.push_back({.name = buffer.at(0).get<std::string>(),
                                .shape = buffer.at(1).get<std::vector<int64_t>>(),
                                .dtype = buffer.at(2).get<std::string>()});
  }
  return manifest;
}

}  // namespace fsdp::checkpoint
