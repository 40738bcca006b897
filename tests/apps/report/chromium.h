// Pages as a browser shows them: headless Chromium runs the programs on them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command.h"
#include "report/text.h"
#include "support/required.h"
#include "support/temporary_folder.h"

class Chromium : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(FSDP_CHROMIUM).empty()) FSDP_SKIP_TEST("Chromium is not there: scripts/setup --all installs it");
  }

  // Chromium's DOM of the page, and its messages. It logs each request in net.json.
  std::string visit(const std::string& page, const std::string& more = "--window-size=1280,2400") const {
    const Ending ending =
        run_command("timeout -k 5 60 " FSDP_CHROMIUM
                    " --headless --no-sandbox --disable-gpu --no-first-run --disable-extensions "
                    "--disable-component-update --disable-background-networking --disable-sync --disable-dev-shm-usage "
                    "--user-data-dir=" +
                    (folder_ / "profile") + " --log-net-log=" + (folder_ / "net.json") +
                    " --enable-logging=stderr --v=0 " + more + " --dump-dom 'file://" + (folder_ / page) + "'");
    EXPECT_EQ(ending.code, 0) << ending.output;
    return ending.output;
  }

  // The page with a program of the test at its end.
  std::string with_program(const std::string& page, const std::string& program) const {
    std::string text = read_bytes(folder_ / page);
    text.insert(text.rfind("</body>"), "<script>" + program + "</script>");
    folder_.write("program.html", text);
    return "program.html";
  }

  static std::string title_in(const std::string& page) {
    const size_t begin = page.find("<title>") + 7;
    return page.substr(begin, page.find("</title>") - begin);
  }

  // A frame is as narrow as a phone, which no window is.
  std::string framed(const std::string& page, int width) const {
    folder_.write("framed.html",
                  fmt::format("<title></title><iframe style=\"width: {}px; height: 2400px; border: none\" "
                              "srcdoc=\"{}\"></iframe>",
                              width, trainer::html(read_bytes(folder_ / page))));
    return "framed.html";
  }

  // The titles that the program of the page gives itself at 1280 and 390 px, in the light and in the dark. A message on
  // the console or a request is a failure.
  std::vector<std::string> titles_of_looks(const std::string& page) const {
    std::vector<std::string> titles;
    for (const int width : {1280, 390}) {
      for (const bool is_dark : {false, true}) {
        const std::string shown =
            visit(framed(page, width),
                  fmt::format("--window-size=1400,2400 --hide-scrollbars --blink-settings=preferredColorScheme={}",
                              is_dark ? 0 : 1));
        EXPECT_EQ(shown.find("CONSOLE"), std::string::npos) << shown;
        EXPECT_TRUE(requests().empty()) << requests().front();
        titles.push_back(title_in(shown));
      }
    }
    return titles;
  }

  // Addresses that the page asked for, but for itself. Chromium's own requests come from no origin.
  std::vector<std::string> requests() const {
    const nlohmann::json log =
        nlohmann::json::parse(read_bytes(folder_ / "net.json"), nullptr, /*allow_exceptions=*/false);
    std::vector<std::string> addresses;
    EXPECT_TRUE(log.is_object() && log.contains("events"));
    if (!log.is_object()) return addresses;
    for (const nlohmann::json& event : log.value("events", nlohmann::json::array())) {
      const std::string initiator = event.value(nlohmann::json::json_pointer("/params/initiator"), "not an origin");
      const std::string address = event.value(nlohmann::json::json_pointer("/params/url"), "");
      if (initiator != "not an origin" && !address.starts_with("file:///")) addresses.push_back(address);
    }
    return addresses;
  }

  TemporaryFolder folder_;
};
