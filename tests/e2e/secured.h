// What tests of a server with TLS, tokens and roles share.
#ifndef BEAMWRIGHT_TESTS_E2E_SECURED_H_
#define BEAMWRIGHT_TESTS_E2E_SECURED_H_

#include <string>

#include "absl/status/status.h"
#include "include/beamwright/client.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/server/access/test_certificates.h"

namespace beamwright::e2e {

// A line of the token file: `token`, which is its own name, with one role.
std::string TokenLine(const std::string& token, const std::string& role);

// Whole files appear at once, so that no reader gets half a certificate.
void Put(const bundle::TempFolder& temp, const std::string& name, const std::string& content);
// NAME.crt and NAME.key.
void PutPair(const bundle::TempFolder& temp, const std::string& name, const access::Issued& issued);

// A call through a separate client, so that every one makes a new connection.
absl::Status DecodeAs(const std::string& address, const client::SecurityOptions& security);

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_SECURED_H_
