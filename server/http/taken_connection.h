// TakenConnection: a client's connection that a listener hands over with the head of its request,
// because what follows is not HTTP (ListenerOptions::take).
#ifndef BEAMWRIGHT_SERVER_HTTP_TAKEN_CONNECTION_H_
#define BEAMWRIGHT_SERVER_HTTP_TAKEN_CONNECTION_H_

#include <memory>

#include "server/http/listener.h"
#include "server/http/request_reader.h"
#include "server/http/transport.h"

namespace beamwright::http {

struct TakenConnection {
  std::unique_ptr<Transport> transport;
  std::shared_ptr<const RequestHead> head;
  HttpRequest request;  // of that head
  // Its place in the listener's account, as long as this is kept.
  std::shared_ptr<void> place;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_TAKEN_CONNECTION_H_
