// Decodes the words given as arguments: decode localhost:8001 hello world
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	pb "beamwright.example/decode/beamwright/v1"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: decode HOST:PORT WORD...")
	}
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	request := &pb.DecodeRequest{Options: &pb.DecodeOptions{BeamSize: proto.Int32(8)}}
	for _, word := range os.Args[2:] {
		request.Sources = append(request.Sources, &pb.Source{Kind: &pb.Source_Text{Text: word}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	response, err := pb.NewDecodeServiceClient(connection).Decode(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	for _, result := range response.Results {
		if failure := result.GetError(); failure != nil {
			log.Print(failure.Message)
		}
		for _, best := range result.GetDecoded().GetHypotheses() {
			fmt.Println(best.Text)
		}
	}
}
