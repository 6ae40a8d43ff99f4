package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsHandler serves the process and Go runtime metrics that
// client_golang registers by itself.
func metricsHandler() http.Handler { return promhttp.Handler() }
