// Command assertions checks one thing of an operator: it ends with 0 for green, 1 for red.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

func main() {
	assertions := map[string]func(context.Context, *server) error{
		"stale": stale, "status": status, "schema": schemaHolds, "visible": visible,
	}
	ctx, cancel := context.WithTimeout(context.Background(), 35*time.Second)
	defer cancel()
	server, err := connect()
	if err == nil {
		err = assertions[os.Args[1]](ctx, server)
	}
	var seen red
	switch {
	case err == nil:
		fmt.Println("green")
	case errors.As(err, &seen):
		fmt.Println(seen)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// stale: the operator's second status gets through as well as its first.
func stale(ctx context.Context, s *server) error {
	// phase4:solution
	if _, err := s.create(ctx, "stale", 1); err != nil {
		return err
	}
	for _, wanted := range []int64{1, 3, 2} {
		if err := s.scale(ctx, "stale", wanted); err != nil {
			return err
		}
		what := fmt.Sprintf("with %d replicas", wanted)
		if err := s.until(ctx, "stale", what, func(status map[string]any) bool {
			return number(status, "replicas") == wanted
		}); err != nil {
			return err
		}
	}
	return nil
	// phase4:stub
	// return errors.New("this assertion is not written yet")
	// phase4:end
}

// status: there is one, and it speaks of the WebApp's generation.
func status(ctx context.Context, s *server) error {
	// phase4:solution
	webapp, err := s.create(ctx, "status", 1)
	if err != nil {
		return err
	}
	return s.until(ctx, "status", "a while later", func(status map[string]any) bool {
		return number(status, "observedGeneration") == webapp.GetGeneration()
	})
	// phase4:stub
	// return errors.New("this assertion is not written yet")
	// phase4:end
}

// schemaHolds: the operator's condition is stored, and it is content with the Pod as the server has it.
func schemaHolds(ctx context.Context, s *server) error {
	// phase4:solution
	if _, err := s.create(ctx, "schema", 1); err != nil {
		return err
	}
	if err := s.until(ctx, "schema", "a condition Ready is missing", func(status map[string]any) bool {
		conditions, _ := status["conditions"].([]any)
		for _, one := range conditions {
			if condition, ok := one.(map[string]any); ok && condition["type"] == "Ready" {
				return true
			}
		}
		return false
	}); err != nil {
		return err
	}
	return s.until(ctx, "schema", "one Pod is wanted", func(status map[string]any) bool {
		return number(status, "readyReplicas") == 1
	})
	// phase4:stub
	// return errors.New("this assertion is not written yet")
	// phase4:end
}

// visible: for two replicas, two Pods are made, ever.
func visible(ctx context.Context, s *server) error {
	// phase4:solution
	count, err := s.podsEver(ctx)
	if err != nil {
		return err
	}
	if _, err := s.create(ctx, "visible", 2); err != nil {
		return err
	}
	if err := s.until(ctx, "visible", "two Pods are wanted", func(status map[string]any) bool {
		return number(status, "readyReplicas") >= 2
	}); err != nil {
		return err
	}
	for quiet, before := 0, count(); quiet < 10; quiet++ {
		time.Sleep(200 * time.Millisecond)
		if now := count(); now != before {
			quiet, before = 0, now
		}
	}
	if made := count(); made != 2 {
		return red{fmt.Sprintf("%d Pods were made for 2 replicas", made)}
	}
	return nil
	// phase4:stub
	// return errors.New("this assertion is not written yet")
	// phase4:end
}
