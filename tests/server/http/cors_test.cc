#include "server/http/cors.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace beamwright::http {
namespace {

TEST(CorsTest, PagesThatMayCall) {
  const absl::StatusOr<Cors> cors = Cors::Make({"https://app.example.org", "http://own:3000"});
  ASSERT_TRUE(cors.ok()) << cors.status();
  struct Case {
    const char* host;
    const char* origin;
    const char* site;     // Sec-Fetch-Site
    bool may_post;        // on a listener that any name may have
    bool may_post_local;  // on one that has a local name
  };
  const std::vector<Case> cases = {
      {"localhost:8000", "", "", true, true},
      {"LOCALHOST", "", "none", true, true},
      {"api.localhost:8000", "", "", true, true},
      {"127.0.0.1:8000", "", "", true, true},
      {"10.1.2.3", "", "", true, true},
      {"[::1]:8000", "", "", true, true},
      {"", "", "", true, true},  // of HTTP/1.0
      {"app.example.org", "", "", true, true},
      {"own:8003", "", "", true, true},
      {"evil.example", "", "", true, false},
      {"evil.example:8003", "http://evil.example:8003", "same-origin", true, false},
      {"127.0.0.1.evil.example", "", "", true, false},
      {"localhost.evil.example", "", "", true, false},
      {"notlocalhost", "", "", true, false},
      {"localhost:8000", "http://localhost:8000", "", true, true},
      {"localhost:8000", "http://localhost:3000", "same-site", true, true},
      {"[::1]:8000", "http://[::1]:8000", "", true, true},
      {"localhost:8000", "https://app.example.org", "cross-site", true, true},
      {"localhost:8000", "https://seen.example.org", "same-origin", true, true},  // through a proxy
      {"localhost:8000", "https://evil.example", "", false, false},
      {"localhost:8000", "https://evil.example", "cross-site", false, false},
      {"localhost:8000", "http://app.example.org", "cross-site", false, false},
      {"localhost:8000", "https://app.example.org:444", "cross-site", false, false},
      {"localhost:8000", "http://localhost.evil.example", "", false, false},
      {"localhost:8000", "null", "cross-site", false, false},
      {"localhost:8000", "moz-extension://3f2a-1", "cross-site", true, true},
      {"localhost:8000", "http://moz-extension://3f2a-1", "cross-site", false, false},
  };
  for (const Case& c : cases) {
    const std::map<std::string, std::string> headers = {
        {"Host", c.host}, {"Origin", c.origin}, {"Sec-Fetch-Site", c.site}};
    HttpRequest request;
    request.header = [&headers](const char* name) { return headers.at(name); };
    for (const char* method : {"POST", "PUT", "DELETE", "GET"}) {
      request.method = method;
      const bool only_reads = request.method == "GET";
      const bool has_good_host = c.may_post == c.may_post_local;
      EXPECT_EQ(cors->Check(request, false).ok(), only_reads || c.may_post)
          << method << " " << c.host << " " << c.origin;
      EXPECT_EQ(cors->Check(request, true).ok(), only_reads ? has_good_host : c.may_post_local)
          << method << " " << c.host << " " << c.origin;
    }
  }
}

}  // namespace
}  // namespace beamwright::http
