// The frame of every page: the head, the colours, the look and the heading. Such a page is one file that needs nothing
// else, and its content security policy forbids the browser to ask for anything.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace trainer {

struct PageFrame {
  std::string title = {};     // text
  std::string subtitle = {};  // text
  std::string label = {};     // HTML, beside the heading
  std::string main = {};      // HTML
  std::string data = {};      // JSON for the programs of the page, made of json_string and json_number; empty: none
  std::string programs = {};  // JavaScript; empty: none
  int reload_seconds = 0;     // after which the page loads itself again; 0: never
};

// The page.
std::string framed_page(const PageFrame& frame);

// Values by their names.
using AssetValues = std::map<std::string, std::string, std::less<>>;

// The asset with the values in place of "{{name}}". Values are not looked at again, whatever they say. Throws
// std::out_of_range for a name without a value.
std::string filled_asset(std::string_view name, const AssetValues& values);

// The assets, one after the other.
std::string joined_assets(std::initializer_list<const char*> names);

}  // namespace trainer
