// What the listener answers to requests byte by byte (RFC 9112); the table has the answers of nginx
// and Envoy, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/http/listener.h"
#include "server/http/request_reader.h"
#include "tests/server/http/raw_http_client.h"

namespace beamwright::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct WireCase {
  std::string name;
  std::string statuses;
  std::string bytes;
};

// As the file's head describes it.
std::string Unwritten(const std::string& written) {
  static const std::regex* const repeated = new std::regex("<([0-9]+)\\*([^>]*)>");
  std::string text;
  std::smatch match;
  std::string rest = written;
  while (std::regex_search(rest, match, *repeated)) {
    absl::StrAppend(&text, match.prefix().str());
    for (int i = std::stoi(match[1].str()); i > 0; --i) {
      absl::StrAppend(&text, match[2].str());
    }
    rest = match.suffix().str();
  }
  std::string bytes;
  EXPECT_TRUE(absl::CUnescape(text + rest, &bytes)) << written;
  return bytes;
}

std::vector<WireCase> ReadCases() {
  std::vector<WireCase> cases;
  std::ifstream in(BEAMWRIGHT_SOURCE_DIR "/tests/server/http/rfc9112_cases.txt");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(" | ", 4));
    if (line[0] != '#' && fields.size() == 5) {
      cases.push_back({fields[0], fields[1], Unwritten(fields[4])});
    }
  }
  return cases;
}

std::string StatusesOf(const std::string& answers) {
  static const std::regex* const status = new std::regex("HTTP/1\\.1 ([0-9]{3}) ");
  std::vector<std::string> found;
  for (std::sregex_iterator at(answers.begin(), answers.end(), *status), end; at != end; ++at) {
    found.push_back((*at)[1].str());
  }
  return found.empty() ? "closed" : absl::StrJoin(found, " ");
}

TEST(Rfc9112Test, EachRequestIsAnsweredAsTheTableSays) {
  ListenerOptions options;
  options.address = "127.0.0.1:0";
  options.transfer_timeout = absl::Seconds(2);
  options.idle_timeout = absl::Seconds(2);
  const auto listener = Listener::Start(options, [](const HttpRequest&) {
    return HttpReply{200, "text/plain", "ok"};
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::vector<WireCase> cases = ReadCases();
  EXPECT_GT(cases.size(), 150u);
  std::vector<std::unique_ptr<RawHttpClient>> clients;
  for (const WireCase& c : cases) {
    clients.push_back(std::make_unique<RawHttpClient>((*listener)->port()));
    clients.back()->Send(c.bytes);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(StatusesOf(clients[i]->ReadAll()), cases[i].statuses) << cases[i].name;
  }
}

// However the bytes come: what a packet holds is the network's choice.
TEST(Rfc9112Test, BytesOneByOneMeanWhatTheyMeanTogether) {
  for (const WireCase& c : ReadCases()) {
    const auto read = [&c](size_t piece) {
      RequestReader reader({});
      std::string pending;
      std::string outcome;
      for (size_t at = 0; at < c.bytes.size() && reader.refusal() == 0; at += piece) {
        pending += c.bytes.substr(at, piece);
        do {
          if (reader.is_done()) {
            absl::StrAppend(&outcome, reader.head()->method, reader.head()->path, " ",
                            reader.TakeBody(), "\n");
            reader.Reset();
          }
          pending.erase(0, reader.Put(pending));
        } while (reader.is_done());
      }
      return absl::StrCat(outcome, reader.refusal());
    };
    if (c.bytes.size() < 10000) {
      EXPECT_EQ(read(1), read(c.bytes.size())) << c.name;
    }
  }
}

TEST(Rfc9112Test, WhatARequestSaysIsRead) {
  RequestReader reader({});
  const std::string head =
      "POST http://h:1/a%20b%2Fc?x=%zz HTTP/1.1\r\nHost: x\r\nX-A:  one \r\nx-a: two\r\n"
      "Connection: a, Close\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(reader.Put(head), head.size());
  EXPECT_EQ(reader.head()->path, "/a b/c");
  EXPECT_EQ(reader.head()->target, "http://h:1/a%20b%2Fc?x=%zz");
  EXPECT_EQ(reader.head()->Value("X-a"), "one");
  EXPECT_EQ(reader.head()->Count("X-A"), 2);
  EXPECT_FALSE(reader.head()->keeps_alive);
  const std::string body = "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nHost: other\r\n\r\n";
  EXPECT_EQ(reader.Put(body + "GET"), body.size());
  EXPECT_TRUE(reader.is_done());
  EXPECT_EQ(reader.TakeBody(), "abcde");
  // Trailers are no headers: no proxy in front has judged them.
  EXPECT_EQ(reader.head()->Value("Host"), "x");
}

TEST(Rfc9112Test, WhoWaitsFor100IsAskedForTheBodyOnce) {
  ListenerOptions options;
  options.address = "127.0.0.1:0";
  const auto listener = Listener::Start(options, [](const HttpRequest& request) {
    return HttpReply{200, "text/plain", request.body + "!"};
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  RawHttpClient client((*listener)->port());
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("h");
  client.Send("i");
  const std::string answer = client.ReadUntil("!");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nhi!"));
}

}  // namespace
}  // namespace beamwright::http
