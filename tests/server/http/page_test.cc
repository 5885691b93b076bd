#include "server/http/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace beamwright::http {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpRequest Request(const std::string& path, const std::string& etag = "") {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  request.header = [etag](const char* name) {
    return std::string(name) == "If-None-Match" ? etag : "";
  };
  return request;
}

std::map<std::string, std::string> HeadersOf(const HttpReply& reply) {
  return {reply.headers.begin(), reply.headers.end()};
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(PageTest, TheFilesAreThoseOfTheFolder) {
  ASSERT_GT(PageFiles().size(), 5u);
  for (const PageFile& file : PageFiles()) {
    EXPECT_EQ(file.content, ReadFile("server/http/page/" + std::string(file.name))) << file.name;
  }
}

TEST(PageTest, PathsNameFiles) {
  ASSERT_NE(FindPageFile("/"), nullptr);
  EXPECT_EQ(FindPageFile("/")->name, "index.html");
  EXPECT_EQ(FindPageFile("/page/page.css")->name, "page.css");
  for (const char* path :
       {"", "/page", "/page/", "/page/none.js", "/page.css", "/page/../page.css"}) {
    EXPECT_EQ(FindPageFile(path), nullptr) << path;
  }
}

TEST(PageTest, BrowsersMayRunWhatIsServedAndNothingElse) {
  for (const PageFile& file : PageFiles()) {
    const HttpReply reply = PageReply(Request("/page/" + std::string(file.name)), file);
    const auto headers = HeadersOf(reply);
    const std::string& policy = headers.at("Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("script-src 'self';"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(headers.at("X-Content-Type-Options"), "nosniff");
    EXPECT_THAT(policy, HasSubstr("connect-src 'self';"));
    EXPECT_EQ(headers.count("Beamwright-WebSocket-Port"), 0);
  }
}

TEST(PageTest, ThePageMaySendSoundToTheListenerOfStreams) {
  const auto headers = HeadersOf(PageReply(Request("/"), *FindPageFile("/"), {9001, 6006}));
  EXPECT_EQ(headers.at("Beamwright-GRPC-Port"), "9001");
  EXPECT_EQ(headers.at("Beamwright-WebSocket-Port"), "6006");
  EXPECT_THAT(headers.at("Content-Security-Policy"),
              HasSubstr("connect-src 'self' ws://*:6006 wss://*:6006;"));
  const auto type = [](const char* path) {
    return PageReply(Request(path), *FindPageFile(path)).content_type;
  };
  EXPECT_EQ(type("/"), "text/html; charset=utf-8");
  EXPECT_EQ(type("/page/page.css"), "text/css; charset=utf-8");
  EXPECT_EQ(type("/page/app.js"), "text/javascript; charset=utf-8");
  EXPECT_EQ(type("/page/icon.svg"), "image/svg+xml");
}

TEST(PageTest, WhoHasAFileGetsItNoSecondTime) {
  const PageFile& file = *FindPageFile("/page/app.js");
  const HttpReply first = PageReply(Request("/page/app.js"), file);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, file.content);
  const std::string tag = HeadersOf(first).at("ETag");
  const HttpReply second = PageReply(Request("/page/app.js", "W/\"x\", " + tag), file);
  EXPECT_EQ(second.status, 304);
  EXPECT_EQ(second.body, "");
  EXPECT_EQ(PageReply(Request("/page/app.js", "\"other\""), file).status, 200);
}

}  // namespace
}  // namespace beamwright::http
