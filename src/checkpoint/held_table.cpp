// As CBOR (RFC 8949), which has bytes and numbers as they are.
#include "checkpoint/held_table.h"

#include <nlohmann/json.hpp>

namespace fsdp::checkpoint {

namespace {

using Json = nlohmann::json;

std::string to_text(const Json& json) {
  std::string text;
  Json::to_cbor(json, text);
  return text;
}

Json to_json(const std::map<std::string, std::vector<uint8_t>>& all) {
  Json json = Json::object();
  for (const auto& [name, bytes] : all) json[name] = Json::binary(bytes);
  return json;
}

std::map<std::string, std::vector<uint8_t>> bytes_in(const Json& json) {
  std::map<std::string, std::vector<uint8_t>> all;
  for (const auto& [name, bytes] : json.items()) all[name] = bytes.get_binary();
  return all;
}

}  // namespace

std::string encode(const HeldPlaces& places) {
  Json pieces = Json::array();
  for (const HeldPlaces::Piece& piece : places.pieces) {
    pieces.push_back({piece.name, piece.dtype, piece.numel, piece.place.rank, piece.place.offset});
  }
  return to_text({{"pieces", std::move(pieces)}, {"scalars", places.scalars}});
}

HeldPlaces decode_places(const std::string& text) {
  const Json json = Json::from_cbor(text);
  HeldPlaces places{.pieces = {}, .scalars = json.at("scalars").get<std::vector<std::string>>()};
  for (const Json& piece : json.at("pieces")) {
    places.pieces.push_back({.name = piece.at(0).get<std::string>(),
                             .dtype = piece.at(1).get<std::string>(),
                             .numel = piece.at(2).get<int64_t>(),
                             .place = {piece.at(3).get<int>(), piece.at(4).get<uint64_t>()}});
  }
  return places;
}

std::string encode(const HeldNumbers& numbers) {
  return to_text({{"scalars", numbers.scalars},
                  {"notes", numbers.notes},
                  {"buffers", to_json(numbers.buffers)},
                  {"generators", to_json(numbers.generators)}});
}

HeldNumbers decode_numbers(const std::string& text) {
  const Json json = Json::from_cbor(text);
  HeldNumbers numbers{.scalars = json.at("scalars").get<std::vector<double>>(),
                      .notes = json.at("notes").get<std::map<std::string, std::string>>(),
                      .buffers = bytes_in(json.at("buffers")),
                      .generators = bytes_in(json.at("generators"))};
  return numbers;
}

}  // namespace fsdp::checkpoint
