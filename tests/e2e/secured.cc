#include "tests/e2e/secured.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {

std::string TokenLine(const std::string& token, const std::string& role) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::StrCat("tokens { name: \"", token, "\" sha256: \"", absl::BytesToHexString(digest),
                      "\" roles: ", role, " }\n");
}

void Put(const bundle::TempFolder& temp, const std::string& name, const std::string& content) {
  temp.Write(name + ".new", content);
  ASSERT_EQ(std::rename(temp.At(name + ".new").c_str(), temp.At(name).c_str()), 0);
}

void PutPair(const bundle::TempFolder& temp, const std::string& name,
             const access::Issued& issued) {
  Put(temp, name + ".crt", issued.cert);
  Put(temp, name + ".key", issued.key);
}

absl::Status DecodeAs(const std::string& address, const client::SecurityOptions& security) {
  client::ClientOptions options;
  options.address = address;
  options.max_attempts = 1;
  options.security = security;
  const auto made = client::Client::Connect(options);
  if (!made.ok()) {
    return made.status();
  }
  const auto response = (*made)->Decode(Request({"beam"}), absl::Now() + absl::Seconds(30));
  return response.status();
}

}  // namespace beamwright::e2e
