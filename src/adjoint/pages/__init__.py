"""What HTML pages share: the template environment, the style, formatted numbers, and elements of drawings."""
